package main

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"lameduck/netns/netnstest"
)

// enterEnv makes the test's own program one that enters the namespace that the variable names, and tells where it is.
const enterEnv = "LAMEDUCK_TEST_ENTER"

// entered is that program. It runs twice: the second time in the namespace, with the arguments that enter hands on.
func entered(path string) int {
	if err := enter(path, os.Args[1:], os.Environ()); err != nil {
		fmt.Println(err)
		return exitFailed
	}
	where, err := os.Readlink("/proc/self/ns/net") // of the first thread; all others have been made by it
	fmt.Println(where, os.Args[1:], err)
	return exitOK
}

// The whole process moves, and finds the flags that it was given.
func TestNetnsMovesTheProcessAndKeepsItsFlags(t *testing.T) {
	namespace := netnstest.New(t)
	var want string
	namespace.Do(t, func() { want, _ = os.Readlink("/proc/thread-self/ns/net") })
	if here, _ := os.Readlink("/proc/thread-self/ns/net"); here == want {
		t.Fatal("the namespace is the test's own")
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "--quiet=1s")
	cmd.Env = append(os.Environ(), enterEnv+"="+namespace.Path())
	out, err := cmd.CombinedOutput()
	if want := want + " [run --quiet=1s] <nil>\n"; err != nil || string(out) != want {
		t.Errorf("%v: %q, want %q", err, out, want)
	}
}
