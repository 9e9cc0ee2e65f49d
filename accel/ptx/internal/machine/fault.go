package machine

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/nicless/nicless/accel/ptx/internal/code"
)

// A Kind is the kind of a fault.
type Kind uint8

// The kinds of faults.
const (
	Other Kind = iota
	Unreachable
	Misaligned
	Trap
	Assertion
)

// A Fault says why a lane could not go on.
type Fault struct {
	Kernel       string
	Block        [3]uint32
	Thread       int    // in the block
	Line, Column int    // in the PTX
	Source       string // the file from which the PTX was compiled, or nothing
	SourceLine   int
	Kind         Kind
	Why          string
}

func (f *Fault) Error() string {
	at := fmt.Sprintf("PTX line %d:%d", f.Line, f.Column)
	if f.Source != "" {
		at = fmt.Sprintf("%s:%d (%s)", f.Source, f.SourceLine, at)
	}
	return fmt.Sprintf("%s, block %v, thread %d, at %s: %s", f.Kernel, f.Block, f.Thread, at, f.Why)
}

// A Deadlock says that all threads of a block wait for each other.
type Deadlock struct {
	Kernel string
	Block  [3]uint32
	Waits  []string // a line for each place at which threads wait
}

func (d *Deadlock) Error() string {
	waits := strings.Join(d.Waits, "\n\t")
	return fmt.Sprintf("%s, block %v: all threads wait for each other:\n\t%s", d.Kernel, d.Block, waits)
}

// try executes a block for a turn. It returns an error if a lane could not go on, or all of them wait for
// each other.
func (b *block) try() (done progress, err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *Fault:
			err = r
		case interface{ Addr() uintptr }: // memory that could be reached is not there
			l := bits.TrailingZeros32(b.now.party.mask)
			err = b.now.faultOf(l, Unreachable, fmt.Sprintf("address 0x%x is not mapped", r.Addr()))
		default:
			panic(r)
		}
	}()
	if done = b.step(); done == stuck && b.live > 0 {
		return done, b.deadlock()
	}
	return done, nil
}

// fail ends the grid because of a lane of the party.
func (w *warp) fail(l int, why string) { panic(w.faultOf(l, Other, why)) }

func (w *warp) faultOf(l int, k Kind, why string) *Fault {
	where := w.prog.where[w.party.pc]
	sources := w.frames[w.party.frame].fn.sources
	return &Fault{
		Kernel: w.block.grid.kernel.Name, Block: w.block.index, Thread: w.index*Lanes + l,
		Line: int(where.At.Line), Column: int(where.At.Column),
		Source: sources[where.Source.File], SourceLine: where.Source.Line, Kind: k, Why: why,
	}
}

// fault is a fail because of memory that may not be reached.
func (w *warp) fault(l int, s code.Space, address, n uint64) {
	panic(w.faultOf(l, Unreachable, fmt.Sprintf("%d bytes at %s address 0x%x cannot be reached", n, s, address)))
}

// misaligned is a fail because the size of an access does not divide an address, or a number of bytes.
func (w *warp) misaligned(l int, address, n uint64) {
	panic(w.faultOf(l, Misaligned, fmt.Sprintf("0x%x is not a multiple of %d bytes", address, n)))
}

// deadlock says where the threads of a block wait.
func (b *block) deadlock() *Deadlock {
	d := &Deadlock{Kernel: b.grid.kernel.Name, Block: b.index}
	for _, w := range b.warps {
		for rest := w.held; rest != 0; {
			a := &w.arrived[bits.TrailingZeros32(rest)]
			var here uint32
			for m := rest; m != 0; m &= m - 1 {
				l := bits.TrailingZeros32(m)
				if o := &w.arrived[l]; o.inst == a.inst && o.mask == a.mask {
					here |= 1 << l
				}
			}
			rest &^= here
			d.Waits = append(d.Waits, w.waits(a, here))
		}
	}
	return d
}

// waits says where lanes wait, and for what.
func (w *warp) waits(a *arrival, lanes uint32) string {
	where := w.prog.where[w.pc[bits.TrailingZeros32(lanes)]-1]
	who := fmt.Sprintf("warp %d, lanes 0x%08x, at PTX line %v", w.index, lanes, where.At)
	if a.barrier < 0 {
		return fmt.Sprintf("%s: for lanes 0x%08x", who, a.mask&w.live&^lanes)
	}
	r := &w.block.barriers[a.barrier]
	want := r.expected
	if want == 0 {
		want = w.block.live
	}
	return fmt.Sprintf("%s: at barrier %d, to which %d of %d threads have come", who, a.barrier, r.arrived+r.missed(), want)
}

// Place returns where an instruction of the kernel's program is in the PTX, and in the source, if that is
// known.
func (k *Kernel) Place(pc int) (line int, source string, sourceLine int) {
	if pc < 0 || pc >= len(k.prog.where) {
		return 0, "", 0
	}
	where := k.prog.where[pc]
	return int(where.At.Line), k.function.sources[where.Source.File], where.Source.Line
}

// Places returns how many instructions the kernel's program has.
func (k *Kernel) Places() int { return len(k.prog.where) }
