package proxy

import (
	"fmt"
	"path/filepath"
	"slices"

	"lameduck/e2e/world"
)

// Cluster is the name of the first route rule's cluster.
const Cluster = "backends"

// rule is a route rule and its cluster.
type rule struct {
	cluster, prefix string
	policy          world.Policy
}

// rules are all route rules, in the order in which they are matched.
func (c Config) rules() []rule {
	var all []rule
	for i, r := range c.Rules {
		all = append(all, rule{fmt.Sprintf("rule-%d", i), r.Prefix, r.Policy})
	}
	return append(all, rule{Cluster, "/", c.Policy})
}

// Clusters are the names of all clusters.
func (c Config) Clusters() []string {
	var names []string
	for _, r := range c.rules() {
		names = append(names, r.cluster)
	}
	slices.Sort(names)
	return names
}

// endpoints is the path of a cluster's list. Envoy takes one list a file, and reads a file anew whenever something is
// moved into its folder.
func (c Config) endpoints(cluster string) string { return filepath.Join(c.Dir, "eds", cluster+".json") }

// EndpointsDir is the folder of the lists.
func (c Config) EndpointsDir() string { return filepath.Join(c.Dir, "eds") }
