// Package node is the machine of the end-to-end cluster: the PID 1 of namespaces of its own, in which a whole
// Kubernetes runs. Its end, however it comes, is the end of every process, namespace and mount of the cluster.
//
// There is no way out of its network namespace, and nothing on the machine outside is changed, but for cgroups that
// are all beneath CgroupRoot.
package node

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Report is what a node says: one line of JSON for each step, Ready when all daemons run, Error before it gives up.
type Report struct {
	Step  string `json:",omitempty"`
	Ready bool   `json:",omitempty"`
	Error string `json:",omitempty"`
}

// Namespaces are what a node needs to be started in.
const Namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC

// Main runs a node, as PID 1, until it is told to end or one of its daemons has ended.
func Main(args []string, in io.Reader, out io.Writer) error {
	var o Options
	flags := flag.NewFlagSet("node", flag.ExitOnError)
	flags.StringVar(&o.Kube, "kube", "", "the program that is all of Kubernetes and etcd")
	flags.StringVar(&o.Debs, "debs", "", "the folder that Debian's packages are unpacked in")
	flags.StringVar(&o.Logs, "logs", "", "the folder of the daemons' logs")
	flags.BoolVar(&o.Stay, "stay", false, "outlive whoever started it")
	_ = flags.Parse(args)
	if os.Getpid() != 1 {
		return errors.New("node: must be PID 1 of namespaces of its own")
	}
	// Whoever reads the reports may have gone. Not by signal.Ignore, which the daemons would inherit.
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE, unix.SIGHUP)
	reports := json.NewEncoder(out)
	err := run(o, in, func(r Report) { _ = reports.Encode(r) })
	if err != nil {
		_ = reports.Encode(Report{Error: err.Error()})
	}
	return errors.Join(err, end())
}

func run(o Options, in io.Reader, report func(Report)) error {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, unix.SIGTERM, unix.SIGINT)
	died := make(chan os.Signal, 1)
	signal.Notify(died, unix.SIGCHLD)
	gone := make(chan struct{})
	if !o.Stay {
		go func() {
			_, _ = io.Copy(io.Discard, in)
			close(gone)
		}()
	}
	if err := prepare(o); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	family := newFamily()
	booted := make(chan error, 1)
	go func() {
		booted <- boot(ctx, o, func(d daemon) error {
			report(Report{Step: d.name})
			return family.start(o, d)
		})
	}()
	for {
		select {
		case <-stop:
			return nil
		case <-gone:
			return nil
		case <-died:
			if err := family.bury(o); err != nil {
				return err
			}
		case err := <-booted:
			if err != nil {
				return err
			}
			report(Report{Ready: true})
		}
	}
}

// prepare makes the place that the daemons live in.
func prepare(o Options) error {
	if err := mounts(); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(Hostname)); err != nil {
		return fmt.Errorf("set the host's name: %w", err)
	}
	if err := network(); err != nil {
		return err
	}
	if err := makeCgroups(); err != nil {
		return err
	}
	if err := os.MkdirAll(o.Logs, 0o755); err != nil {
		return err
	}
	return writeConfig(o)
}

// end kills every process of the namespace and removes its cgroups.
func end() error {
	if err := unix.Kill(-1, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	for {
		_, err := unix.Wait4(-1, nil, 0, nil)
		if err != nil && !errors.Is(err, unix.EINTR) {
			break
		}
	}
	return RemoveCgroups()
}

func logOf(o Options, name string) string { return filepath.Join(o.Logs, name+".log") }
