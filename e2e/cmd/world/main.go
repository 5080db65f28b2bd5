// Command world is every process of the world but Envoy and lameduck: the node that is PID 1 of a run, the application,
// the client, the container's walls. `world run` builds a world from a specification in JSON, for a person who wants
// to look at one.
package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"lameduck/e2e/world/app"
	"lameduck/e2e/world/box"
	"lameduck/e2e/world/load"
	"lameduck/e2e/world/node"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: world run < spec.json > result.json")
		os.Exit(2)
	}
	os.Exit(run(os.Args[1], os.Args[2:]))
}

func run(role string, args []string) int {
	var err error
	switch role {
	case "run":
		err = runSpec(args, os.Stdin, os.Stdout)
	case "node":
		err = node.Main(os.Stdin, os.Stdout)
	case "app":
		return app.Main(args)
	case "child":
		app.Child()
	case "shell":
		return app.Shell(args)
	case "load":
		err = load.Main(os.Stdin, os.Stdout)
	case "foreign":
		err = foreign(args)
	case "box":
		err = box.Main(args)
	default:
		err = fmt.Errorf("unknown role %q", role)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "world:", err)
		return 1
	}
	return 0
}

// foreign holds connections to itself; args are their number.
func foreign(args []string) error {
	if len(args) != 1 {
		return errors.New("foreign: how many connections?")
	}
	count, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	return load.Foreign(count, os.Stdin, os.Stdout)
}
