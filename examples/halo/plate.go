package main

import (
	"errors"
	"image"
	"image/color"
	"image/png"
	"os"
)

// A plate is a field of w x h cells with a margin of one cell around it.
type plate struct {
	w, h int
	cell []float64
}

// at returns the index of a cell. The cells of the margin have x = -1 or w, or y = -1 or h.
func (p *plate) at(x, y int) int { return (y+1)*(p.w+2) + x + 1 }

// start returns the temperature of a cell of the whole plate at the beginning: a disc and a
// bar are hot. Cells outside the plate never change: they are hot above it and cold
// elsewhere.
func (c *config) start(x, y int) float64 {
	if y < 0 {
		return 1
	}
	if x < 0 || x >= c.nx || y >= c.ny {
		return 0
	}
	fx, fy := float64(x)/float64(c.nx)-0.5, float64(y)/float64(c.ny)-0.5
	disc := fx*fx+fy*fy < 0.04
	bar := fy > 0.3 && fy < 0.36 && fx > -0.4 && fx < 0.3
	if disc || bar {
		return 1
	}
	return 0
}

// fill sets the cells of p, which begins at x0, y0 of the whole plate, to their start
// values.
func (c *config) fill(p *plate, x0, y0 int) {
	for y := -1; y <= p.h; y++ {
		for x := -1; x <= p.w; x++ {
			p.cell[p.at(x, y)] = c.start(x0+x, y0+y)
		}
	}
}

// row computes a row of the next step. Tiles and the serial run make the additions in the
// same order, and so the results are the same.
func row(next, now *plate, y int) {
	for x := range now.w {
		i := now.at(x, y)
		next.cell[i] = 0.25 * (now.cell[i-1] + now.cell[i+1] + now.cell[i-now.w-2] + now.cell[i+now.w+2])
	}
}

// serial computes the whole plate in one loop.
func serial(c config) *plate {
	now, next := newPlate(c.nx, c.ny), newPlate(c.nx, c.ny)
	c.fill(now, 0, 0)
	c.fill(next, 0, 0)
	for range c.steps {
		for y := range c.ny {
			row(next, now, y)
		}
		now, next = next, now
	}
	return now
}

func newPlate(w, h int) *plate { return &plate{w, h, make([]float64, (w+2)*(h+2))} }

// writePNG draws the plate: black is cold, and red, yellow and white are increasingly hot.
func writePNG(file string, p *plate) error {
	img := image.NewRGBA(image.Rect(0, 0, p.w, p.h))
	part := func(v float64) uint8 { return uint8(255 * max(0, min(1, v))) }
	for y := range p.h {
		for x := range p.w {
			v := 3 * p.cell[p.at(x, y)]
			img.SetRGBA(x, y, color.RGBA{part(v), part(v - 1), part(v - 2), 255})
		}
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(png.Encode(f, img), f.Close())
}
