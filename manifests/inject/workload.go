package inject

import (
	"cmp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// work goes through the documents of one stream, edits their trees, and collects the edits that do the same to the text.
type work struct {
	editor
	options  []Option
	defaults map[string]string
	parts    parts

	tree    *tree  // of the present document
	object  string // the present one
	line    int
	remarks []Remark
	faults  []Remark
}

func newWork(s *source, defaults map[string]string) (*work, error) {
	p, err := readParts()
	return &work{editor: editor{source: s}, options: Options(), defaults: defaults, parts: p}, err
}

func (w *work) remark(text string) {
	w.remarks = append(w.remarks, Remark{w.line, w.object, text})
}

func (w *work) fail(line int, text string) {
	w.faults = append(w.faults, Remark{line, w.object, text})
}

func (w *work) document(doc *yaml.Node) {
	w.tree, w.object = newTree(doc), ""
	if w.tree.fault != "" {
		w.fail(w.tree.line, w.tree.fault)
		return
	}
	if len(doc.Content) == 1 {
		w.any(place{node: doc.Content[0]}, "", "")
	}
}

// any injects an object, or the objects of a list. version and kind are those of an object that does not tell its own, as
// in a typed list.
func (w *work) any(o place, version, kind string) {
	kind = cmp.Or(w.tree.get(o, "kind").text(), kind)
	version = cmp.Or(w.tree.get(o, "apiVersion").text(), version)
	if isWrapper(version, kind) {
		w.configure(w.tree.get(o, "functionConfig"))
	}
	if element, isList := strings.CutSuffix(kind, "List"); isList {
		items := w.tree.get(o, "items")
		for _, item := range items.items() {
			w.any(w.tree.at(item, items), version, element)
		}
	} else if path, known := template(version, kind); known {
		w.object = strings.TrimSpace(kind + " " + w.tree.get(o, "metadata", "name").text())
		w.line = o.node.Line
		w.workload(w.tree.get(o, path...))
	}
	if w.tree.fault != "" {
		w.fail(w.tree.line, w.tree.fault)
		w.tree.fault = ""
	}
	w.object = ""
}

func (w *work) workload(template place) {
	if template.absent() {
		w.remark("it has no pod template, and stays as it is")
		return
	}
	w.pod(template)
}

// template tells where in a workload the pod template is.
func template(version, kind string) (path []string, known bool) {
	group, _, found := strings.Cut(version, "/")
	if !found {
		group = ""
	}
	in := func(kinds ...string) bool { return slices.Contains(kinds, kind) }
	switch {
	case group == "" && kind == "Pod":
		return nil, true
	case group == "" && kind == "PodTemplate":
		return []string{"template"}, true
	case group == "batch" && kind == "CronJob":
		return []string{"spec", "jobTemplate", "spec", "template"}, true
	case group == "" && kind == "ReplicationController", group == "batch" && kind == "Job",
		group == "argoproj.io" && kind == "Rollout",
		(group == "apps" || group == "extensions") && in("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"):
		return []string{"spec", "template"}, true
	}
	return nil, false
}
