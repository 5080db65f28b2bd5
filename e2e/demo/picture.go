package demo

import (
	"bytes"
	"fmt"
	"image/color"
	"io"
	"os"
	"path/filepath"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// The picture's measures.
const (
	laneHeight  = 0.56 * vg.Inch
	topHeight   = 1.45 * vg.Inch
	axisHeight  = 0.62 * vg.Inch
	nameWidth   = 2.35 * vg.Inch
	resultWidth = 1.55 * vg.Inch
	margin      = 0.08 * vg.Inch
	width       = 11 * vg.Inch
)

// The picture's colours: red and orange for what the client lost, green and blue for who answers, grey for nobody.
var (
	timeoutColour  = color.NRGBA{R: 0xb0, G: 0x1e, B: 0x28, A: 0xff}
	refusedColour  = color.NRGBA{R: 0xf0, G: 0x8c, B: 0x1e, A: 0xff}
	appColour      = color.NRGBA{R: 0x5b, G: 0xa8, B: 0x6a, A: 0xff}
	heldColour     = color.NRGBA{R: 0x2c, G: 0x74, B: 0x48, A: 0xff}
	leavingColour  = color.NRGBA{R: 0xb4, G: 0xdc, B: 0xa8, A: 0xff}
	lameduckColour = color.NRGBA{R: 0x3b, G: 0x76, B: 0xb8, A: 0xff}
	goneColour     = color.NRGBA{R: 0xd5, G: 0xd5, B: 0xd5, A: 0xff}
	lagColour      = color.NRGBA{R: 0xff, G: 0xf4, B: 0xd6, A: 0xff}
	ink            = color.NRGBA{R: 0x22, G: 0x26, B: 0x2b, A: 0xff}
	pale           = color.NRGBA{R: 0x6a, G: 0x70, B: 0x78, A: 0xff}
	hair           = color.NRGBA{R: 0xe4, G: 0xe6, B: 0xe9, A: 0xff}
)

// Draw writes demo.svg and demo.png into a folder.
func Draw(dir string, rows []Row) error {
	height := topHeight + vg.Length(len(rows))*laneHeight + axisHeight
	svg := vgsvg.New(width, height)
	drawAll(draw.New(svg), rows)
	var b bytes.Buffer
	if _, err := svg.WriteTo(&b); err != nil {
		return err
	}
	// The fonts are not in the file: name the ones of the same measure that other machines have.
	portable := bytes.ReplaceAll(b.Bytes(), []byte("font-family:Liberation Sans"),
		[]byte("font-family:'Liberation Sans',Arial,Helvetica,sans-serif"))
	if err := os.WriteFile(filepath.Join(dir, "demo.svg"), portable, 0o644); err != nil {
		return err
	}
	bitmap := vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(144))
	drawAll(draw.New(bitmap), rows)
	return writeFile(filepath.Join(dir, "demo.png"), vgimg.PngCanvas{Canvas: bitmap})
}

func writeFile(path string, content io.WriterTo) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if _, err := content.WriteTo(file); err != nil {
		_ = file.Close()
		return err
	}
	return file.Close()
}

// drawAll draws the whole picture: heading, names, lanes, results.
func drawAll(c draw.Canvas, rows []Row) {
	c.FillPolygon(color.White, rectangle(c.Min, c.Max))
	p := plot.New()
	p.X.Min, p.X.Max = -deletedAt.Seconds(), lastSecond(rows)
	p.Y.Min, p.Y.Max = 0, float64(len(rows))
	p.HideY()
	p.X.Label.Text = "seconds after the pod's deletion"
	p.X.Label.TextStyle = style(10, pale, false)
	p.X.Tick.Label = style(9, pale, false)
	p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = text.XCenter, text.YTop
	p.X.Color, p.X.Tick.Color = pale, pale
	p.X.Tick.Marker = plot.ConstantTicks(ticks(p.X.Max))
	p.Add(lanes{rows})

	middle := draw.Crop(c, nameWidth, -resultWidth, margin, -topHeight)
	p.Draw(middle)
	area := p.DataCanvas(middle)
	for i, r := range rows {
		top := laneTop(area, len(rows), i)
		write2(c, c.Min.X+0.15*vg.Inch, top, text.XLeft, r.Name, "app "+r.App, ink)
		colour := timeoutColour
		if r.failed() == 0 {
			colour = heldColour
		}
		write2(c, area.Max.X+0.2*vg.Inch, top, text.XLeft, fmt.Sprintf("%d failed", r.failed()),
			"pod ends after "+seconds(r.endedAfter()), colour)
	}
	heading(c, area, rows)
}

// lastSecond is where the picture ends: after the last pod.
func lastSecond(rows []Row) float64 {
	last := (load - deletedAt).Seconds()
	for _, r := range rows {
		last = max(last, r.endedAfter().Seconds()+1)
	}
	return last
}

func ticks(last float64) []plot.Tick {
	var all []plot.Tick
	for s := 0.0; s <= last; s += 5 {
		all = append(all, plot.Tick{Value: s, Label: fmt.Sprintf("%.0f", s)})
	}
	return all
}

// write2 writes a line and a paler one beneath, in a lane that begins at top.
func write2(c draw.Canvas, x, top vg.Length, align text.XAlignment, first, second string, colour color.Color) {
	bold, plain := style(10.5, colour, true), style(9, pale, false)
	bold.XAlign, plain.XAlign = align, align
	c.FillText(bold, vg.Point{X: x, Y: top - 0.23*vg.Inch}, first)
	c.FillText(plain, vg.Point{X: x, Y: top - 0.41*vg.Inch}, second)
}

func style(size float64, colour color.Color, bold bool) draw.TextStyle {
	f := font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Points(size)}
	if bold {
		f.Weight = xfont.WeightBold
	}
	return draw.TextStyle{Color: colour, Font: f, Handler: plot.DefaultTextHandler}
}
