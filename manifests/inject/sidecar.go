package inject

import (
	"errors"
	"fmt"
	"strconv"

	"go.yaml.in/yaml/v3"

	"lameduck/manifests"
)

// parts are what is added, as the component's patches have it.
type parts struct {
	sidecar *yaml.Node   // the container
	self    []*yaml.Node // variables by which it knows its own pod
	hold    *yaml.Node   // a lifecycle
}

func readParts() (parts, error) {
	var p parts
	pod := []any{"spec", "template", "spec", "initContainers", 0}
	sidecar, err := dig(manifests.Sidecar(), pod...)
	if err != nil {
		return p, err
	}
	hold, err := dig(manifests.Hold(), 0, "value")
	if err != nil {
		return p, err
	}
	token, err := dig(manifests.Token(), append(pod, "env")...)
	if err != nil {
		return p, err
	}
	for _, variable := range token.Content {
		switch variable.Content[1].Value {
		case "POD_NAME", "POD_UID":
			p.self = append(p.self, variable)
		}
	}
	p.sidecar, p.hold = sidecar, hold
	return p, nil
}

// dig finds a node of a document by keys and numbers.
func dig(text string, path ...any) (*yaml.Node, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		return nil, fmt.Errorf("inject: the manifests: %w", err)
	}
	n := doc.Content[0]
	for _, step := range path {
		i, isNumber := step.(int)
		if !isNumber {
			i = index(n, step.(string)) + 1
		}
		if i >= len(n.Content) || !isNumber && i == 0 {
			return nil, fmt.Errorf("inject: the manifests have no %v", path)
		}
		n = n.Content[i]
	}
	return n, nil
}

// sidecar is the container for a pod.
func (w *work) sidecar(grace int64, annotations place) *yaml.Node {
	c := clone(w.parts.sidecar)
	if image := w.defaults["image"]; image != "" {
		c.Content[index(c, "image")+1] = str(image)
	}
	args := sequence(yaml.FlowStyle, str("--grace-period="+strconv.FormatInt(grace, 10)+"s"))
	i := index(c, "restartPolicy") + 2
	c.Content = append(c.Content[:i:i], append([]*yaml.Node{str("args"), args}, c.Content[i:]...)...)
	env := c.Content[index(c, "env")+1]
	for _, variable := range w.parts.self {
		env.Content = append(env.Content, clone(variable))
	}
	for _, o := range w.options {
		if o.Name == "image" || o.Name == "hold" {
			continue
		}
		switch value, annotated := w.value(annotations, o.Name); {
		case o.usable(value):
			env.Content = append(env.Content, mapping(yaml.FlowStyle, str("name"), str(o.variable()), str("value"), str(value)))
		case annotated && value != "": // an empty one takes the default away
			w.remark(fmt.Sprintf("its annotation lameduck/%s %q is left out: %s", o.Name, value, o.Fix))
		}
	}
	return c
}

// configure takes the options of a ResourceList's functionConfig.
func (w *work) configure(config place) {
	if config.absent() {
		return
	}
	if kind := w.tree.get(config, "kind").text(); kind != "ConfigMap" {
		w.fail(config.node.Line, fmt.Sprintf("functionConfig is of kind %q: write a ConfigMap, with the options in its data", kind))
		return
	}
	data := w.tree.get(config, "data")
	if data.absent() {
		return
	}
	given := map[string]string{}
	for name, value := range w.defaults {
		given[name] = value
	}
	for i := 0; i+1 < len(data.node.Content) && data.node.Kind == yaml.MappingNode; i += 2 {
		name, value := data.node.Content[i].Value, w.tree.at(data.node.Content[i+1], data).text()
		if err := check(name, value); err != nil {
			w.fail(data.node.Content[i].Line, fmt.Sprintf("functionConfig, data.%s %q: %v", name, value, err))
		}
		given[name] = value
	}
	w.defaults = given
}

func check(name, value string) error {
	known := ""
	for _, o := range Options() {
		if o.Name == name {
			return o.Check(value)
		}
		known += " " + o.Name
	}
	return errors.New("there is no such option; there are" + known)
}
