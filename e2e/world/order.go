package world

// Order is what the node is told: a Spec without blanks and where things are.
type Order struct {
	Spec            Spec
	Envoy, Lameduck string
	// Dir is an empty folder to mount the run's files on.
	Dir string
}

// Reply is what the node answers.
type Reply struct {
	Result Result
	Error  string
}
