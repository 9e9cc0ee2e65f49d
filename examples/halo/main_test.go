package main

import (
	"fmt"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/internal/program"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { program.Main(m, main) }

// TestSameAsSerial uses tiles of unequal size, tiles of one cell, tiles of one row, and a
// single tile.
func TestSameAsSerial(t *testing.T) {
	for _, c := range []config{
		{64, 48, 31, 2, 2}, {17, 23, 20, 3, 2}, {2, 2, 9, 2, 2}, {40, 3, 10, 1, 3}, {3, 40, 10, 3, 1}, {20, 20, 8, 1, 1},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) { require.NoError(t, run(c, "")) })
	}
}

func TestPicture(t *testing.T) {
	file := filepath.Join(t.TempDir(), "heat.png")
	out, stderr, code := program.Run(t, "-nx", "60", "-ny", "40", "-steps", "20", "-png", file)
	require.Zero(t, code, stderr)
	assert.Contains(t, out, "60 x 40 cells on 2 x 2 accelerators, 20 steps, 160 edges put\n")
	assert.Contains(t, out, "every cell is the same to the bit\n"+file+" shows the plate\n")
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	img, err := png.Decode(f)
	require.NoError(t, err)
	assert.Equal(t, 60, img.Bounds().Dx())
	assert.Equal(t, 40, img.Bounds().Dy())
	r, g, _, _ := img.At(30, 20).RGBA()
	assert.True(t, r == 0xffff && g == 0xffff, "the disc in the middle is hot")
	assert.Equal(t, color.RGBA{A: 255}, img.At(0, 25), "the edge at the left is cold")
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"-nx", "0"}, {"-steps", "0"}, {"-px", "17"}, {"-ny", "3", "-py", "4"}, {"-bogus"}, {"more"}} {
		_, stderr, code := program.Run(t, args...)
		assert.Equal(t, 2, code, "%v: %s", args, stderr)
	}
	_, stderr, code := program.Run(t, "-nx", "8", "-ny", "8", "-steps", "1", "-png", "/nonexistent/heat.png")
	assert.Equal(t, 1, code)
	assert.Contains(t, stderr, "halo: error: open /nonexistent/heat.png")
}

// TestCompare shows that compare finds one wrong cell.
func TestCompare(t *testing.T) {
	c := config{8, 8, 3, 2, 2}
	nic, err := nicless.Open(nicless.Config{})
	require.NoError(t, err)
	defer nic.Close()
	g, err := newGrid(nic, c)
	require.NoError(t, err)
	defer g.close()
	require.NoError(t, g.spread())
	got := g.gather()
	require.NoError(t, compare(got, serial(c)))
	got.cell[got.at(7, 2)] = 3
	require.ErrorContains(t, compare(got, serial(c)), "cell 7,2 is 3; the serial run has ")
}
