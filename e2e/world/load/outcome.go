package load

import (
	"slices"
	"time"

	"lameduck/e2e/world"
)

func (r *run) outcome() world.Outcome {
	slices.Sort(r.took)
	slices.SortFunc(r.sessions, func(a, b world.SessionEnd) int { return int(a.At - b.At) })
	slices.SortFunc(r.failures, func(a, b world.Failure) int { return int(a.At - b.At) })
	return world.Outcome{
		Start: r.start, Sent: len(r.took), Failures: r.failures, Sessions: r.sessions,
		P50: quantile(r.took, 0.5), P99: quantile(r.took, 0.99), Slowest: quantile(r.took, 1),
	}
}

// quantile of sorted values, by nearest rank; 0 of none.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(q*float64(len(sorted)-1)+0.5)]
}
