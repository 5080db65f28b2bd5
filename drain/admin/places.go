package admin

import "math"

// Places bounds the connections that the surface has at once, each of which costs an open file.
type Places struct {
	// Connections and Holds are those of the admin address.
	Connections, Holds int
	// Lines, ControlHolds and Shows are those of each control socket: clients whose line has not come, holds, and answers
	// to "status" that are being read.
	Lines, ControlHolds, Shows int
}

// PlacesFor shares a limit of open files out: the surface takes less than a third of some hundred, so that a takeover has its part.
func PlacesFor(files uint64) *Places {
	part := func(of uint64, least, most int) int { return max(least, int(min(files/of, uint64(most)))) }
	return &Places{
		Connections:  part(8, 4, maxConnections),
		Holds:        part(16, 2, maxHolds),
		Lines:        part(64, 2, maxControls),
		ControlHolds: part(32, 2, maxHolds),
		Shows:        part(256, 1, maxShows),
	}
}

// allPlaces are those where open files are plenty.
func allPlaces() *Places { return PlacesFor(math.MaxUint64) }

// Files is how many open files the surface needs at the most, with two control sockets. A listener accepts one connection
// more than it has places.
func (p *Places) Files() int {
	return p.Connections + p.Holds + 1 + 2*(p.Lines+p.ControlHolds+p.Shows+1)
}
