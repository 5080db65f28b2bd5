package inject

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

var layouts = flag.Uint64("layouts", 200, "how many layouts to try")

// A workload is injected however it is laid out, in everything that YAML offers and people use.
func TestEveryLayoutIsInjected(t *testing.T) {
	for seed := range *layouts {
		l := &layout{Rand: rand.New(rand.NewPCG(seed, 0))}
		text := l.stream()
		out, _, err := Stream([]byte(text), nil)
		if err != nil {
			t.Fatalf("layout %d: %v:\n%s", seed, err, text)
		}
		checkInjected(t, []byte(text), out)
		if n := strings.Count(string(out), "--grace-period="); n != l.pods {
			t.Errorf("layout %d: %d sidecars, not %d, in\n%s", seed, n, l.pods, out)
		}
		if t.Failed() {
			return
		}
	}
}

// layout writes a stream as chance wants it.
type layout struct {
	*rand.Rand
	eol  string
	step int
	dash int
	pods int
}

func (l *layout) one(of ...string) string { return of[l.IntN(len(of))] }

// A tree is a string (a scalar as it is written in block, and in flow), a list or pairs.
type (
	list  []any
	pairs []pair
	pair  struct {
		key   string
		value any
	}
)

func (l *layout) stream() string {
	l.eol = l.one("\n", "\r\n")
	text := l.one("", "---", "# first", "--- # first")
	if text != "" {
		text += l.eol
	}
	for range 1 + l.IntN(2) {
		l.step, l.dash = 1+l.IntN(4), l.IntN(3)
		l.pods++
		object := l.workload()
		if l.IntN(4) == 3 {
			text += l.flow(object, "", l.IntN(2) == 1, l.IntN(2) == 1)
		} else {
			text += strings.TrimPrefix(l.block(object, 0), l.eol)
		}
		text += l.eol + "---" + l.eol
	}
	return strings.TrimSuffix(text, l.eol+l.one("", "---"+l.eol))
}

func (l *layout) workload() pairs {
	var containers list
	for i := range 1 + l.IntN(3) {
		containers = append(containers, l.container(i))
	}
	spec := pairs{{"containers", containers}}
	switch l.IntN(7) {
	case 0:
	case 1:
		spec = append(spec, pair{"initContainers", l.one("null", "~", "")})
	case 2:
		spec = append(spec, pair{"initContainers", list{}})
	default:
		spec = append(spec, pair{"initContainers", list{l.container(8), l.container(9)}[:1+l.IntN(2)]})
	}
	spec = l.shuffled(append(spec, pair{"serviceAccountName", "me"}, pair{"volumes", list{pairs{{"name", "v"}}, "x"}}))
	switch l.IntN(3) {
	case 0:
		return pairs{{"apiVersion", "v1"}, {"kind", "Pod"}, {"spec", spec}}
	case 1:
		return pairs{{"kind", "Deployment"}, {"apiVersion", "apps/v1"}, {"spec", pairs{{"template", pairs{{"spec", spec}}}}}}
	}
	job := pairs{{"spec", pairs{{"template", pairs{{"spec", spec}}}}}}
	return pairs{{"apiVersion", "v1"}, {"kind", "List"}, {"items", list{
		pairs{{"apiVersion", "batch/v1"}, {"kind", "CronJob"}, {"spec", pairs{{"schedule", "daily"}, {"jobTemplate", job}}}}}}}
}

func (l *layout) container(i int) pairs {
	c := pairs{{"name", fmt.Sprintf("%sc%d", l.one("", "ä", "日本"), i)}}
	if l.IntN(4) > 0 {
		c = append(c, pair{"image", l.one("i:1", "registry.example/i@sha256:ab")})
	}
	start := pair{"postStart", pairs{{"exec", pairs{{"command", list{"a", "b"}}}}}}
	switch l.IntN(8) {
	case 1:
		c = append(c, pair{"lifecycle", l.one("null", "~", "")})
	case 2:
		c = append(c, pair{"lifecycle", pairs{}})
	case 3:
		c = append(c, pair{"lifecycle", pairs{start}})
	case 4:
		c = append(c, pair{"lifecycle", l.shuffled(pairs{start, {"preStop", l.one("null", "~", "")}})})
	case 5:
		c = append(c, pair{"lifecycle", pairs{{"preStop", pairs{{"sleep", pairs{{"seconds", "5"}}}}}}})
	case 6:
		c = append(c, pair{"args", list{"one # two", "- name: lameduck"}})
	}
	return l.shuffled(c)
}

func (l *layout) shuffled(p pairs) pairs {
	for i := range p {
		j := i + l.IntN(len(p)-i)
		p[i], p[j] = p[j], p[i]
	}
	return p
}

// block writes a tree below a key or a dash, from a line end on.
func (l *layout) block(tree any, indent int) string {
	var b strings.Builder
	pad := strings.Repeat(" ", indent)
	switch tree := tree.(type) {
	case pairs:
		for _, p := range tree {
			b.WriteString(l.between(pad) + pad + l.one(p.key, `"`+p.key+`"`, "'"+p.key+"'") + ":" + l.value(p.value, indent))
		}
	case list:
		for _, item := range tree {
			text := strings.TrimPrefix(l.value(item, indent+1), " ")
			if inner, ok := item.(pairs); ok && len(inner) > 0 && l.IntN(3) > 0 {
				gap := 1 + l.IntN(3)
				text = strings.TrimLeft(l.block(inner, indent+1+gap), " \r\n")
				if strings.HasPrefix(text, "#") {
					text = l.eol + strings.Repeat(" ", indent+1+gap) + text
				} else {
					text = strings.Repeat(" ", gap-1) + text
				}
			}
			b.WriteString(l.between(pad) + pad + "- " + text)
		}
	}
	return b.String()
}

// value writes what follows a colon or a dash.
func (l *layout) value(tree any, indent int) string {
	below := indent + l.step
	if items, isList := tree.(list); isList {
		below = indent + l.dash
		if len(items) == 0 {
			return " []" + l.remark()
		}
	}
	if p, isPairs := tree.(pairs); isPairs && len(p) == 0 {
		return " {}" + l.remark()
	}
	scalar, isScalar := tree.(string)
	switch {
	case isScalar:
		return l.scalar(scalar, indent+l.step)
	case l.IntN(6) == 5:
		return " " + l.flow(tree, strings.Repeat(" ", below), l.IntN(2) == 1, l.IntN(2) == 1) + l.remark()
	}
	return l.remark() + l.block(tree, below)
}

func (l *layout) scalar(s string, indent int) string {
	pad := strings.Repeat(" ", indent)
	switch {
	case s == "":
		return l.remark()
	case s == "null" || s == "~" || s == "5":
		return " " + s + l.remark()
	case strings.Contains(s, "v1") || strings.Contains("Pod Deployment List CronJob", s): // whose line end would count
		return " " + l.one(s, `"`+s+`"`, "'"+s+"'") + l.remark()
	case strings.Contains(s, " "):
		return l.one(` "`+s+`"`, ` "`+strings.Replace(s, " ", l.eol+pad, 1)+`"`, " |"+l.eol+pad+strings.Replace(s, " ", l.eol+pad, 1))
	}
	return l.one(" "+s, ` "`+s+`"`, " '"+s+"'", " >-"+l.eol+pad+s, " |"+l.eol+pad+s) + l.one("", l.eol)
}

func (l *layout) remark() string { return l.one("", " # remark", "   #", "  ") }

// between is the line end before an entry, and what may stand before that.
func (l *layout) between(pad string) string {
	return l.eol + l.one("", "", pad+"# why"+l.eol, l.eol, pad+"# so"+l.eol+l.eol+pad+"# 'then"+l.eol, "#0"+l.eol, pad+" # \"in"+l.eol)
}

// flow writes a tree in brackets, on lines of their own below pad or in one, and as JSON has it or not.
func (l *layout) flow(tree any, pad string, lines, asJSON bool) string {
	open, end, text := "[", "]", []string{}
	inner := pad + strings.Repeat(" ", l.step)
	switch tree := tree.(type) {
	case string:
		switch {
		case tree == "" && asJSON || tree == "~" && asJSON:
			return "null"
		case tree == "" || tree == "null" || tree == "~" || tree == "5":
			return tree
		case asJSON || strings.Contains(tree, " ") || l.IntN(2) == 1:
			return quoted(tree)
		}
		return "'" + tree + "'"
	case pairs:
		open, end = "{", "}"
		for _, p := range tree {
			key := p.key + ": "
			if asJSON {
				key = quoted(p.key) + l.one(":", ": ")
			}
			text = append(text, key+l.flow(p.value, inner, lines, asJSON))
		}
	case list:
		for _, item := range tree {
			text = append(text, l.flow(item, inner, lines, asJSON))
		}
	}
	switch {
	case len(text) == 0:
		return open + l.one("", " ") + end
	case lines && pad+inner != "":
		return open + l.eol + inner + strings.Join(text, ","+l.eol+inner) + l.eol + pad + " " + end
	}
	space := l.one("", " ")
	return open + space + strings.Join(text, ", ") + space + end
}
