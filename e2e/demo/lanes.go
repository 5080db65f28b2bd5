package demo

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"lameduck/e2e/world"
)

// lanes draws each row as a lane: bars of failures by the time that they were sent, and beneath who had the address.
type lanes struct{ rows []Row }

// bin is the width of a bar in seconds.
const bin = 0.5

// Plot implements plot.Plotter.
func (l lanes) Plot(c draw.Canvas, p *plot.Plot) {
	x, _ := p.Transforms(&c)
	from, to := x(0), x(lag.Seconds())
	c.FillPolygon(lagColour, rectangle(vg.Point{X: from, Y: c.Min.Y}, vg.Point{X: to, Y: c.Max.Y}))
	tallest := l.tallest()
	for i, r := range l.rows {
		top := laneTop(c, len(l.rows), i)
		c.StrokeLine2(draw.LineStyle{Color: hair, Width: vg.Points(0.6)}, c.Min.X, top, c.Max.X, top)
		base := top - laneHeight + 0.17*vg.Inch
		room := laneHeight - 0.17*vg.Inch - 0.05*vg.Inch
		bars(c, x, r, base, room/vg.Length(tallest))
		phases(c, x, p.X.Max, r, top-laneHeight+0.05*vg.Inch, base-0.03*vg.Inch)
	}
	c.StrokeLine2(draw.LineStyle{Color: ink, Width: vg.Points(0.8), Dashes: []vg.Length{3, 2}}, from, c.Min.Y, from, c.Max.Y)
}

// laneTop is the upper edge of lane i of n.
func laneTop(c draw.Canvas, n, i int) vg.Length {
	return c.Max.Y - (c.Max.Y-c.Min.Y)*vg.Length(i)/vg.Length(n)
}

// count is what failed in one bin.
type count struct{ timeouts, others int }

// bins counts a row's failures by the time that they were sent.
func (r Row) bins() map[int]count {
	all := make(map[int]count)
	for _, f := range r.Result.Load.Failures {
		i := int((r.since(f.At) + deletedAt.Seconds()) / bin)
		b := all[i]
		if f.Kind == "timeout" {
			b.timeouts++
		} else {
			b.others++
		}
		all[i] = b
	}
	return all
}

// tallest is the highest bar of all rows: they share one scale.
func (l lanes) tallest() int {
	most := 1
	for _, r := range l.rows {
		for _, b := range r.bins() {
			most = max(most, b.timeouts+b.others)
		}
	}
	return most
}

// bars draws a row's failures upwards from base, one at the height of unit.
func bars(c draw.Canvas, x func(float64) vg.Length, r Row, base, unit vg.Length) {
	const gap = 0.8
	for i, b := range r.bins() {
		at := float64(i)*bin - deletedAt.Seconds()
		left, right := x(at)+gap, x(at+bin)-gap
		middle := base + unit*vg.Length(b.timeouts)
		// A bar of one or two must still be seen.
		top := middle + max(unit*vg.Length(b.others), visible(b.others))
		fill(c, timeoutColour, left, right, base, middle)
		fill(c, refusedColour, left, right, middle, top)
	}
}

func visible(n int) vg.Length {
	if n == 0 {
		return 0
	}
	return 2
}

// phases draws who had the pod's address: the application, lameduck after it, nobody.
func phases(c draw.Canvas, x func(float64) vg.Length, last float64, r Row, low, high vg.Length) {
	term, _ := r.mark("app", world.MarkTerm)
	exit, _ := r.mark("app", world.MarkExit)
	end, _ := r.mark("", world.MarkGone)
	fill(c, appColour, c.Min.X, x(0), low, high)
	fill(c, heldColour, x(0), x(term), low, high)
	fill(c, leavingColour, x(term), x(exit), low, high)
	if _, lameduck := r.counted(); lameduck {
		fill(c, lameduckColour, x(exit), x(end), low, high)
	} else {
		end = exit
	}
	middle := (low + high) / 2
	fill(c, goneColour, x(end), x(last), middle-0.75, middle+0.75)
}

func fill(c draw.Canvas, colour color.Color, left, right, low, high vg.Length) {
	if right > left && high > low {
		c.FillPolygon(colour, rectangle(vg.Point{X: left, Y: low}, vg.Point{X: right, Y: high}))
	}
}

func rectangle(low, high vg.Point) []vg.Point {
	return []vg.Point{low, {X: high.X, Y: low.Y}, high, {X: low.X, Y: high.Y}}
}
