package takeover

import (
	"log/slog"

	"golang.org/x/sys/unix"
)

// A relayed connection costs two sockets, and a pipe of two ends for each direction: io.Copy keeps the pipe of splice(2)
// for as long as it runs, idle or not (internal/poll/splice_linux.go).
const filesPerRelay = 6

// filesKept are for what lameduck always has open, or opens for a moment: listeners, netlink, name resolution, the API server.
const filesKept = 64

// mostProbes bounds the probes at once, where the limit of open files leaves so many.
const mostProbes = 128

// leastFiles is the soft limit of most systems.
const leastFiles = 1024

// FileLimit is how many files the process may have open: the soft limit, which Go's runtime has raised to the hard one, less
// one, at the start (syscall/rlimit.go).
func FileLimit(logger *slog.Logger) uint64 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		logger.Warn("the limit of open files cannot be read", "error", err, "assumed", leastFiles)
		return leastFiles
	}
	return limit.Cur
}

// share is what the connections of a takeover may have of the open files.
type share struct {
	relays, probes int // at once
}

// shareOut shares a limit of open files out, of which others need kept.
func shareOut(limit uint64, kept int) (s share) {
	s.probes = int(max(1, min(limit/16, mostProbes)))
	if used := uint64(kept + filesKept + s.probes); limit > used {
		s.relays = int((limit - used) / filesPerRelay)
	}
	return s
}

// files shares the process's limit out.
func (t *Takeover) files() share {
	limit := t.sys.files(t.log)
	s := shareOut(limit, t.opts.FilesKept)
	if s.relays == 0 && len(t.opts.Targets) > 0 {
		t.log.Error("no port will be taken: the limit of open files (ulimit -n) leaves none for relayed connections; raise it",
			slog.Uint64("limit", limit))
	}
	return s
}
