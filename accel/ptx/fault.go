package ptx

import (
	"errors"

	"github.com/nicless/nicless/accel/ptx/internal/machine"
)

// A Kind is the kind of a Fault.
type Kind uint8

// Kinds of a Fault, numbered as in package machine.
const (
	Other       Kind = iota // Why says which
	Unreachable             // an address outside the space, or without memory
	Misaligned              // an address that the size of the access does not divide
	Trap                    // the instruction trap
	Assertion               // assert of the source
)

// A Fault is why Run ended early: a lane could not go on.
type Fault struct {
	Kernel       string
	Block        [3]uint32 // the block's place in the grid
	Thread       int       // in the block, from 0: x first, z last
	Line, Column int       // in the PTX, from 1
	Source       string    // the file that was compiled; empty if the PTX does not say (nvcc -lineinfo)
	SourceLine   int
	Kind         Kind
	Why          string // with the address, if there is one
}

func (f *Fault) Error() string {
	return (&machine.Fault{
		Kernel: f.Kernel, Block: f.Block, Thread: f.Thread, Line: f.Line, Column: f.Column,
		Source: f.Source, SourceLine: f.SourceLine, Why: f.Why,
	}).Error()
}

// A Deadlock is why Run ended early: all threads of a block wait for each other.
type Deadlock struct {
	Kernel string
	Block  [3]uint32
	Waits  []string // a line for each place at which threads wait
}

func (d *Deadlock) Error() string { return (*machine.Deadlock)(d).Error() }

// public returns an error of the machine as this package's users know it.
func public(err error) error {
	var f *machine.Fault
	if errors.As(err, &f) {
		return &Fault{
			Kernel: f.Kernel, Block: f.Block, Thread: f.Thread, Line: f.Line, Column: f.Column,
			Source: f.Source, SourceLine: f.SourceLine, Kind: Kind(f.Kind), Why: f.Why,
		}
	}
	var d *machine.Deadlock
	if errors.As(err, &d) {
		return (*Deadlock)(d)
	}
	return err
}
