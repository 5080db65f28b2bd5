// Package kube asks the Kubernetes API server, in a drain and never before, which addresses are Envoy's and who can stand
// in for this pod, and leaves an Event on the pod. All of it is a help that a drain can do without: every call has a
// timeout, every answer a bound, and what cannot be had is said in words.
//
//	LIST at resourceVersion 0 ──▶ WATCH from there, until the drain's end
//	      ▲    └ fails: said, and tried again (forbidden, or an API that is not there: left alone)
//	      └────── 410 Gone: the version is too old to watch from
//
// That is one LIST and one WATCH for each --envoy-slices and each Service; `auto` takes one LIST of the own namespace, and
// then a WATCH for each Service that it finds this pod in. Pods are never read.
//
// Of client-go this takes the transport: TLS, and the token that the kubelet renews. Its RESTClient with the types of
// k8s.io/api would make the binary 7.5 MB larger instead of 1.3 MB, and the idle process 4.5 MB instead of 1.0 MB, of the
// 12 MiB that it may have; and it reads a whole LIST into memory, where this takes it slice by slice.
package kube
