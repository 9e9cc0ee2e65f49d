// Halo computes how heat spreads over a plate (a Jacobi stencil). The plate is cut into
// tiles, one for each accelerator of a grid of emulated accelerators. Every tile has a
// margin of one cell, the halo, which contains the edges of the neighbour tiles. After
// each step the accelerators put their new edges into each other's halos, with a signal.
//
//	go run ./examples/halo
//	go run ./examples/halo -nx 400 -ny 300 -px 3 -py 2 -steps 2000 -png heat.png
//
// The kernel runs once, for all steps. The host takes no part in the exchange. At the end
// every cell is compared with the result of a serial run. The bits must be the same.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/nicless/nicless"
)

func main() {
	var c config
	flag.IntVar(&c.nx, "nx", 256, "cells of the plate from left to right, 1 to 8192")
	flag.IntVar(&c.ny, "ny", 256, "cells from top to bottom, 1 to 8192")
	flag.IntVar(&c.steps, "steps", 500, "steps of time, 1 to 1000000")
	flag.IntVar(&c.px, "px", 2, "accelerators from left to right, 1 to 16")
	flag.IntVar(&c.py, "py", 2, "accelerators from top to bottom, 1 to 16")
	file := flag.String("png", "", "write the plate to this `file` as a picture")
	flag.Parse()
	if flag.NArg() > 0 {
		usage("%q is not an option", flag.Arg(0))
	}
	for _, f := range []struct {
		name    string
		v, most int
	}{{"-nx", c.nx, 8192}, {"-ny", c.ny, 8192}, {"-steps", c.steps, 1_000_000}, {"-px", c.px, min(16, c.nx)},
		{"-py", c.py, min(16, c.ny)}} {
		if f.v < 1 || f.v > f.most {
			usage("%s %d; 1 to %d are possible (and a tile has at least one cell)", f.name, f.v, f.most)
		}
	}
	if err := run(c, *file); err != nil {
		fmt.Fprintf(os.Stderr, "halo: error: %v\n", err)
		os.Exit(1)
	}
}

func usage(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "halo: error: "+format+"\nhalo: hint: halo -h lists the options\n", args...)
	os.Exit(2)
}

type config struct{ nx, ny, steps, px, py int }

func run(c config, file string) error {
	// The engine and each accelerator are threads that spin.
	runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), c.px*c.py+2))
	nic, err := nicless.Open(nicless.Config{})
	if err != nil {
		return err
	}
	defer nic.Close()
	g, err := newGrid(nic, c)
	if err != nil {
		return err
	}
	defer g.close()
	start := time.Now()
	if err := g.spread(); err != nil {
		return err
	}
	took := time.Since(start)
	got := g.gather()
	if file != "" {
		if err := writePNG(file, got); err != nil {
			return err
		}
	}
	start = time.Now()
	want := serial(c)
	alone := time.Since(start)
	if err := compare(got, want); err != nil {
		return err
	}
	fmt.Printf("%d x %d cells on %d x %d accelerators, %d steps, %d edges put\n", c.nx, c.ny, c.px, c.py, c.steps, g.puts())
	fmt.Printf("%v, and %v in one loop without accelerators; every cell is the same to the bit\n",
		took.Round(time.Microsecond), alone.Round(time.Microsecond))
	if file != "" {
		fmt.Printf("%s shows the plate\n", file)
	}
	return nil
}

func compare(got, want *plate) error {
	for y := range want.h {
		for x := range want.w {
			if g, w := got.cell[got.at(x, y)], want.cell[want.at(x, y)]; g != w {
				return fmt.Errorf("cell %d,%d is %v; the serial run has %v", x, y, g, w)
			}
		}
	}
	return nil
}
