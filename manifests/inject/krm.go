package inject

import (
	"errors"
	"strings"

	"go.yaml.in/yaml/v3"
)

// isWrapper tells a ResourceList, by which kustomize and kpt speak with a function
// (github.com/kubernetes-sigs/kustomize, cmd/config/docs/api-conventions/functions-spec.md).
func isWrapper(version, kind string) bool {
	return kind == "ResourceList" && strings.HasPrefix(version, "config.kubernetes.io/")
}

// isResourceList looks at the first document of a stream.
func isResourceList(text []byte) bool {
	doc, err := decoder(text)()
	if err != nil || len(doc.Content) == 0 {
		return false
	}
	t, root := &tree{}, place{node: doc.Content[0]}
	return isWrapper(t.get(root, "apiVersion").text(), t.get(root, "kind").text())
}

// failedList is the ResourceList that tells why there is none with what was wanted.
func failedList(err error) []byte {
	type result struct {
		Message  string `yaml:"message"`
		Severity string `yaml:"severity"`
	}
	answer := struct {
		APIVersion string   `yaml:"apiVersion"`
		Kind       string   `yaml:"kind"`
		Items      []string `yaml:"items"`
		Results    []result `yaml:"results"`
	}{APIVersion: "config.kubernetes.io/v1", Kind: "ResourceList", Items: []string{}}
	if told := (*Error)(nil); errors.As(err, &told) {
		for _, r := range told.Remarks {
			answer.Results = append(answer.Results, result{r.String(), "error"})
		}
	} else {
		answer.Results = []result{{err.Error(), "error"}}
	}
	text, _ := yaml.Marshal(answer) // of such a struct it always works
	return text
}
