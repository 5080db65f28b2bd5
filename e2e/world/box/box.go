// Package box runs a program as a container runtime runs lameduck under Pod Security `restricted`: alone with its binary
// in a read-only root, as uid 65532, without a capability, with no_new_privs.
package box

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// UID is the user that boxed programs run as.
const UID = 65532

// Options say what is in the box.
type Options struct {
	// Root is an empty folder to build the root in; only this process's mount namespace sees it.
	Root string
	// Binary is the program, /lameduck in the box.
	Binary string
	// TerminationLog is the file behind /dev/termination-log, the only one that the program can write.
	TerminationLog string
	// Hosts is the file behind /etc/hosts.
	Hosts string
	// Cert and Key are the files behind /tls/tls.crt and /tls/tls.key, as a mounted Secret has them; empty: none.
	Cert, Key string
	// Files is the limit of open files; the zero value leaves it.
	Files Limit
	// NoSockDiag makes seccomp refuse sock_diag sockets.
	NoSockDiag bool
}

// Limit is a soft and a hard resource limit.
type Limit struct{ Soft, Hard uint64 }

// Main makes the box in this process, which must be alone in a mount namespace, and becomes the program. It returns
// only what went wrong. args are the options as flags, then the program's own arguments.
func Main(args []string) error {
	var o Options
	flags := flag.NewFlagSet("box", flag.ExitOnError)
	flags.StringVar(&o.Root, "root", "", "empty folder")
	flags.StringVar(&o.Binary, "binary", "", "the program")
	flags.StringVar(&o.TerminationLog, "termination-log", "", "file")
	flags.StringVar(&o.Hosts, "hosts", "", "file")
	flags.StringVar(&o.Cert, "cert", "", "file")
	flags.StringVar(&o.Key, "key", "", "file")
	flags.Uint64Var(&o.Files.Soft, "files", 0, "soft limit of open files; 0: as it is")
	flags.Uint64Var(&o.Files.Hard, "files-hard", 0, "hard limit")
	flags.BoolVar(&o.NoSockDiag, "no-sock-diag", false, "refuse sock_diag sockets")
	_ = flags.Parse(args)
	// Capabilities and no_new_privs belong to a thread; the one that calls exec counts.
	runtime.LockOSThread()
	if err := o.enter(); err != nil {
		return fmt.Errorf("box: %w", err)
	}
	if err := dropPrivileges(); err != nil {
		return fmt.Errorf("box: drop privileges: %w", err)
	}
	if err := o.restrict(); err != nil {
		return fmt.Errorf("box: %w", err)
	}
	argv := append([]string{"/lameduck"}, flags.Args()...)
	return fmt.Errorf("box: exec %s: %w", o.Binary, unix.Exec("/lameduck", argv, os.Environ()))
}

// Args returns Main's arguments for the options and the program's arguments.
func (o Options) Args(program ...string) []string {
	return append([]string{
		"-root", o.Root, "-binary", o.Binary, "-termination-log", o.TerminationLog, "-hosts", o.Hosts,
		"-cert", o.Cert, "-key", o.Key,
		"-files", strconv.FormatUint(o.Files.Soft, 10), "-files-hard", strconv.FormatUint(o.Files.Hard, 10),
		"-no-sock-diag=" + strconv.FormatBool(o.NoSockDiag), "--",
	}, program...)
}
