// Package manifests holds the parts of the manifests from which programs build what they add to a pod. So there is one
// text for kustomize and for them.
package manifests

import _ "embed" // for the texts

//go:embed component/sidecar/sidecar.yaml
var sidecar string

//go:embed component/hold.yaml
var hold string

//go:embed component/discovery/token.yaml
var token string

// Sidecar is the component's patch that adds the native sidecar.
func Sidecar() string { return sidecar }

// Hold is the component's patch that adds the hold hook.
func Hold() string { return hold }

// Token is the component's patch by which the sidecar knows its own pod, and the API server it.
func Token() string { return token }
