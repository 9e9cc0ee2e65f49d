package main

import (
	"fmt"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/accel"
)

// The sides of a tile. A side of a tile touches the opposite side of the neighbour.
const (
	up = iota
	down
	left
	right
	sides
)

var opposite = [sides]int{down, up, right, left}

// A grid contains the tiles, one for each accelerator, row by row.
type grid struct {
	config
	tiles []*tile
}

// A tile is one accelerator with two copies of its part of the plate: a step reads one
// copy and writes the other. A row is put directly into the halo of the neighbour. A
// column is packed, put into the neighbour's inbox, and unpacked there. That takes one
// request instead of one request for each cell.
//
// Two copies of everything are enough. A neighbour puts the edge of step n+2 only after
// it has received the edge that this tile put after step n+1, and by then this tile has
// read the edge of step n.
type tile struct {
	*grid
	x0, y0 int
	field  [2]plate
	packed [2][sides][]float64 // cells of the left and the right side, packed
	inbox  [2][sides][]float64
	at     layout
	mem    *accel.Buffer
	dev    *accel.Device
	stream *accel.Stream
	to     [sides]*accel.Queue // the queue to each neighbour; nil at the edge of the plate
	peer   [sides]*tile
}

// A layout contains the offsets in the memory of a tile, in bytes. The memory begins with
// four signals, one for each side.
type layout struct {
	field         [2]int
	packed, inbox [2][sides]int
	size          int
}

func newLayout(w, h int) (l layout) {
	l.size = 8 * sides
	take := func(numbers int) (off int) {
		off = l.size
		l.size += 8 * numbers
		return off
	}
	for i := range 2 {
		l.field[i] = take((w + 2) * (h + 2))
		for _, s := range []int{left, right} {
			l.packed[i][s], l.inbox[i][s] = take(h), take(h)
		}
	}
	return l
}

func newGrid(nic *nicless.Context, c config) (g *grid, err error) {
	g = &grid{config: c}
	defer func() {
		if err != nil {
			g.close()
		}
	}()
	pd, err := nic.AllocPD()
	if err != nil {
		return nil, err
	}
	for i := range c.px * c.py {
		t, err := newTile(pd, g, i%c.px, i/c.px)
		if err != nil {
			return nil, err
		}
		g.tiles = append(g.tiles, t)
	}
	for i, t := range g.tiles {
		if i%c.px+1 < c.px {
			if err := join(nic, pd, t, g.tiles[i+1], right); err != nil {
				return nil, err
			}
		}
		if i+c.px < len(g.tiles) {
			if err := join(nic, pd, t, g.tiles[i+c.px], down); err != nil {
				return nil, err
			}
		}
	}
	return g, nil
}

func newTile(pd *nicless.PD, g *grid, i, j int) (*tile, error) {
	t := &tile{grid: g, x0: i * g.nx / g.px, y0: j * g.ny / g.py}
	w, h := (i+1)*g.nx/g.px-t.x0, (j+1)*g.ny/g.py-t.y0
	t.at = newLayout(w, h)
	mr, err := pd.RegisterMemory(t.at.size, nicless.FullAccess)
	if err != nil {
		return nil, err
	}
	t.mem = accel.NewBuffer(mr)
	all := accel.Slice[float64](t.mem)
	numbers := func(off, n int) []float64 { return all[off/8:][:n:n] }
	for k := range 2 {
		t.field[k] = plate{w, h, numbers(t.at.field[k], (w+2)*(h+2))}
		g.fill(&t.field[k], t.x0, t.y0)
		for _, s := range []int{left, right} {
			t.packed[k][s], t.inbox[k][s] = numbers(t.at.packed[k][s], h), numbers(t.at.inbox[k][s], h)
		}
	}
	t.dev, err = accel.New(accel.Config{})
	if err != nil {
		return nil, err
	}
	t.stream, err = t.dev.NewStream()
	if err != nil {
		_ = t.dev.Close()
		return nil, err
	}
	return t, nil
}

// join connects two neighbours. Tile b touches tile a at the given side of tile a.
func join(nic *nicless.Context, pd *nicless.PD, a, b *tile, side int) error {
	var qps [2]*nicless.QP
	for i := range qps {
		cq, err := nic.CreateCQ(nicless.CQConfig{Collapsed: true})
		if err != nil {
			return err
		}
		// an exported collapsed CQ is for one send queue only
		receives, err := nic.CreateCQ(nicless.CQConfig{PollOnly: true})
		if err != nil {
			return err
		}
		qps[i], err = pd.CreateQP(
			nicless.QPConfig{SendCQ: cq, RecvCQ: receives, Concurrent: true})
		if err != nil {
			return err
		}
	}
	if err := nicless.Pair(qps[0], qps[1], nicless.Connection{}); err != nil {
		return err
	}
	var queues [2]*accel.Queue
	for i, qp := range qps {
		export, err := qp.Export()
		if err != nil {
			return err
		}
		queues[i], err = accel.NewQueue(export)
		if err != nil {
			return err
		}
	}
	a.to[side], a.peer[side] = queues[0], b
	b.to[opposite[side]], b.peer[opposite[side]] = queues[1], a
	return nil
}

func (g *grid) close() {
	for _, t := range g.tiles {
		_ = t.dev.Close()
	}
}

// kernel is the program of every lane. The lanes share the rows. Each of the first four
// lanes also exchanges the edge of one side.
func (t *tile) kernel(th *accel.Thread) {
	for step := range t.steps {
		now, next := &t.field[step%2], &t.field[(step+1)%2]
		for y := th.Index(); y < now.h; y += th.Threads() {
			row(next, now, y)
		}
		th.Sync()
		if side := th.Index(); side < sides && t.to[side] != nil {
			t.put(th, side, (step+1)%2)
			th.WaitUntil(t.mem, 8*side, accel.GE, uint64(step+1))
			t.unpack(side, (step+1)%2)
		}
		th.Sync()
	}
	if side := th.Index(); side < sides && t.to[side] != nil {
		if err := th.Quiet(t.to[side]); err != nil {
			panic(err)
		}
	}
}

// put puts the edge of a side into the halo or the inbox of the neighbour, and signals.
func (t *tile) put(th *accel.Thread, side, k int) {
	f, p := &t.field[k], t.peer[side]
	pf := &p.field[k]
	var src, dst, n int
	switch side {
	case up:
		src, dst, n = t.at.field[k]+8*f.at(0, 0), p.at.field[k]+8*pf.at(0, pf.h), f.w
	case down:
		src, dst, n = t.at.field[k]+8*f.at(0, f.h-1), p.at.field[k]+8*pf.at(0, -1), f.w
	default:
		x := 0
		if side == right {
			x = f.w - 1
		}
		for y := range f.h {
			t.packed[k][side][y] = f.cell[f.at(x, y)]
		}
		src, dst, n = t.at.packed[k][side], p.at.inbox[k][opposite[side]], f.h
	}
	th.PutSignal(t.to[side], p.mem.Ref(dst), t.mem.Ref(src), 8*n, p.mem.Ref(8*opposite[side]), 1)
}

// unpack moves a column from the inbox into the halo.
func (t *tile) unpack(side, k int) {
	f, x := &t.field[k], -1
	switch side {
	case up, down:
		return
	case right:
		x = f.w
	}
	for y := range f.h {
		f.cell[f.at(x, y)] = t.inbox[k][side][y]
	}
}

// spread runs the kernel on all accelerators.
func (g *grid) spread() error {
	for _, t := range g.tiles {
		if err := t.stream.Launch(accel.Grid{Blocks: 1, Threads: accel.WarpSize}, t.kernel); err != nil {
			return err
		}
	}
	for i, t := range g.tiles {
		if err := t.stream.Sync(); err != nil {
			return fmt.Errorf("accelerator %d: %w", i, err)
		}
	}
	return nil
}

// gather copies the tiles into one plate.
func (g *grid) gather() *plate {
	all := newPlate(g.nx, g.ny)
	for _, t := range g.tiles {
		f := &t.field[g.steps%2]
		for y := range f.h {
			copy(all.cell[all.at(t.x0, t.y0+y):][:f.w], f.cell[f.at(0, y):])
		}
	}
	return all
}

// puts returns how many edges the tiles have put in all steps.
func (g *grid) puts() (n int) {
	for _, t := range g.tiles {
		for _, p := range t.peer {
			if p != nil {
				n += g.steps
			}
		}
	}
	return n
}
