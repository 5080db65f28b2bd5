package demo

import (
	"fmt"
	"image/color"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// heading writes the title and the key above the lanes.
func heading(c draw.Canvas, area draw.Canvas, rows []Row) {
	left := c.Min.X + 0.15*vg.Inch
	c.FillText(style(15, ink, true), vg.Point{X: left, Y: c.Max.Y - 0.32*vg.Inch},
		"A pod dies behind Envoy: what the client loses, and who answers meanwhile")
	c.FillText(style(10, pale, false), vg.Point{X: left, Y: c.Max.Y - 0.53*vg.Inch}, fmt.Sprintf(
		"3 pods, %d requests/s through a real Envoy that hears of the deletion %.0f s late; client timeout 5 s; %s requests a row",
		rate, lag.Seconds(), thousands(rows[0].Result.Load.Sent)))
	y := area.Max.Y + 0.46*vg.Inch
	key(c, left, y, "above the line, failed requests by the half second in which they were sent:", []entry{
		{timeoutColour, "timed out"}, {refusedColour, "answered 503"},
	})
	key(c, left, y-0.2*vg.Inch, "beneath it, who has the pod's address:", []entry{
		{appColour, "the app"}, {heldColour, "the app, its SIGTERM held back"}, {leavingColour, "the app after SIGTERM"},
		{lameduckColour, "lameduck alone"}, {goneColour, "nobody"},
	})
	band := style(8.5, pale, false)
	band.XAlign = text.XLeft
	c.FillText(band, vg.Point{X: lagEdge(area, rows), Y: area.Max.Y + 0.05*vg.Inch}, "Envoy's lag")
}

// lagEdge is where the band of the lag begins.
func lagEdge(area draw.Canvas, rows []Row) vg.Length {
	return area.X(deletedAt.Seconds() / (deletedAt.Seconds() + lastSecond(rows)))
}

// entry is one colour of a key.
type entry struct {
	colour color.Color
	name   string
}

// key writes a line of text and the colours it speaks of.
func key(c draw.Canvas, x, y vg.Length, about string, entries []entry) {
	const box = 0.11 * vg.Inch
	s := style(9, ink, false)
	s.XAlign = text.XLeft
	plain := s
	plain.Color = pale
	c.FillText(plain, vg.Point{X: x, Y: y}, about)
	x += plain.Width(about) + 0.13*vg.Inch
	for _, e := range entries {
		c.FillPolygon(e.colour, rectangle(vg.Point{X: x, Y: y}, vg.Point{X: x + box, Y: y + box}))
		x += box + 0.05*vg.Inch
		c.FillText(s, vg.Point{X: x, Y: y}, e.name)
		x += s.Width(e.name) + 0.16*vg.Inch
	}
}
