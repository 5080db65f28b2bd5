package inject

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// pod injects a pod template by the rules of the admission policy (manifests/policy/policy.yaml).
func (w *work) pod(t place) {
	if w.tree.get(t, "metadata", "labels", "lameduck/inject").text() == "disabled" {
		return
	}
	spec := w.tree.get(t, "spec")
	containers := w.tree.get(spec, "containers")
	if len(containers.items()) == 0 {
		w.remark("it has no containers, and stays as it is")
		return
	}
	inits := w.tree.get(spec, "initContainers")
	if w.names(inits)["lameduck"] || w.names(containers)["lameduck"] {
		return
	}
	grace, unfit, err := w.fits(spec)
	switch {
	case err != nil:
		w.fail(spec.line, err.Error())
		return
	case unfit != "":
		w.remark("it stays as it is: " + unfit)
		return
	}
	if spec.shared {
		w.fail(spec.line, "its pod spec is another object's too, by an alias or a merge key: write it out")
		return
	}
	annotations := w.tree.get(t, "metadata", "annotations")
	shape := shapeOf(t.node, spec.node)
	if err := w.addSidecar(spec, inits, w.sidecar(grace, annotations), shape); err != nil {
		w.fail(spec.line, err.Error())
	}
	w.hold(containers, annotations, shape)
}

// fits tells the pod's grace period in seconds, and why lameduck is nothing for it.
func (w *work) fits(spec place) (grace int64, unfit string, err error) {
	var onHost bool
	if p := w.tree.get(spec, "hostNetwork"); !p.absent() {
		if err := p.node.Decode(&onHost); err != nil {
			return 0, "", errors.New("its hostNetwork is neither true nor false")
		}
	}
	grace = 30 // the default of Kubernetes
	if p := w.tree.get(spec, "terminationGracePeriodSeconds"); !p.absent() {
		if err := p.node.Decode(&grace); err != nil || grace > math.MaxInt64/int64(time.Second) {
			return 0, "", errors.New("its terminationGracePeriodSeconds is no whole number of seconds")
		}
	}
	system := w.tree.get(spec, "os", "name")
	switch {
	case onHost:
		return grace, "hostNetwork, and two pods of a node cannot both have port 8420", nil
	case grace < 2:
		return grace, fmt.Sprintf("terminationGracePeriodSeconds %d leaves no time to drain; write 2 at least", grace), nil
	case !system.absent() && system.text() != "linux":
		return grace, "lameduck runs on Linux, and its os is " + system.text(), nil
	}
	return grace, "", nil
}

// names are those of containers.
func (w *work) names(containers place) map[string]bool {
	all := map[string]bool{}
	for _, item := range containers.items() {
		all[w.tree.get(w.tree.at(item, containers), "name").text()] = true
	}
	return all
}

// value is that of an option: the pod's annotation, else the default.
func (w *work) value(annotations place, name string) (value string, annotated bool) {
	if p := w.tree.get(annotations, "lameduck/"+name); !p.absent() {
		return p.text(), true
	}
	return w.defaults[name], false
}

func (w *work) addSidecar(spec, inits place, sidecar *yaml.Node, shape shape) error {
	m := spec.node
	switch own := index(m, "initContainers"); {
	case inits.shared:
		return errors.New("its initContainers are another object's too, by an alias or a merge key: write them out")
	case own >= 0 && (inits.absent() || inits.node.Kind == yaml.SequenceNode && len(inits.items()) == 0):
		return w.setValue(m, own, sequence(0, sidecar), shape)
	case own >= 0 && inits.node.Kind != yaml.SequenceNode:
		return errors.New("its initContainers are no list")
	case own >= 0:
		return w.prepend(inits.node, sidecar, m, shape)
	}
	return w.addPair(m, max(index(m, "containers"), 0), "initContainers", sequence(0, sidecar), shape)
}

// hold adds the hold hook to the containers that shall have it.
func (w *work) hold(containers, annotations place, shape shape) {
	value, annotated := w.value(annotations, "hold")
	var wanted []string
	if value != "" {
		for name := range strings.SplitSeq(value, ",") {
			wanted = append(wanted, strings.TrimSpace(name))
		}
	}
	there := w.names(containers)
	for _, name := range wanted {
		if annotated && name != "none" && !there[name] {
			w.remark(fmt.Sprintf("its annotation lameduck/hold names %q, and no container is called so", name))
		}
	}
	for _, item := range containers.items() {
		c := w.tree.at(item, containers)
		name := w.tree.get(c, "name").text()
		if value != "" && !slices.Contains(wanted, name) {
			continue
		}
		if err := w.holdContainer(c, name, shape); err != nil {
			w.fail(item.Line, fmt.Sprintf("container %q: %v", name, err))
		}
	}
}

func (w *work) holdContainer(c place, name string, shape shape) error {
	lifecycle := w.tree.get(c, "lifecycle")
	if hook := w.tree.get(lifecycle, "preStop"); !hook.absent() {
		if w.tree.get(hook, "httpGet", "path").text() != "/hold" {
			w.remark(fmt.Sprintf("container %q has a preStop hook, which is left alone: SIGTERM does not wait for Envoy there", name))
		}
		return nil
	}
	own := -1
	if c.node.Kind == yaml.MappingNode {
		own = index(c.node, "lifecycle")
	}
	switch {
	case c.node.Kind != yaml.MappingNode:
		return errors.New("it is no mapping")
	case c.shared || lifecycle.shared:
		return errors.New("it is another's too, by an alias or a merge key: write it out")
	case own < 0:
		return w.addPair(c.node, afterImage(c.node), "lifecycle", clone(w.parts.hold), shape)
	case lifecycle.absent() || lifecycle.node.Kind == yaml.MappingNode && len(lifecycle.node.Content) == 0:
		return w.setValue(c.node, own, clone(w.parts.hold), shape)
	case lifecycle.node.Kind != yaml.MappingNode:
		return errors.New("its lifecycle is no mapping")
	}
	hook := clone(w.parts.hold.Content[1])
	if i := index(lifecycle.node, "preStop"); i >= 0 {
		return w.setValue(lifecycle.node, i, hook, shape)
	}
	return w.addPair(lifecycle.node, 0, "preStop", hook, shape)
}

// afterImage is where people write a container's lifecycle first: after its name and its image.
func afterImage(c *yaml.Node) int {
	return max(index(c, "name"), index(c, "image")) + 2
}
