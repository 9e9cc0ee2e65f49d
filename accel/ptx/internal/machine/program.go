package machine

import (
	"fmt"
	"math"

	"github.com/nicless/nicless/accel/ptx/internal/code"
)

// Lanes is how many lanes a warp has.
const Lanes = 32

// A vector has a value for each lane of a warp.
type vector = [Lanes]uint64

// A Program is code whose addresses are known.
type Program struct {
	insts     []code.Inst
	where     []code.Where
	consts    []vector
	functions []*function
	kernels   map[string]*Kernel
	variables map[string]Symbol
	shared    int64    // bytes of shared memory that variables take
	constants []extent // variables in constant memory, by their addresses
}

// A Symbol is a variable of a program.
type Symbol struct {
	Address uint64
	Size    int64
}

// A function is code from begin to end.
type function struct {
	*code.Function
	sources    map[int]string // names of files of its module
	begin, end int32
	builtin    builtin // of a function that the machine itself has
}

// A Kernel is a function that a launch executes.
type Kernel struct {
	*function
	prog  *Program
	calls int64 // bytes of a lane for frames of functions that are called by name
}

// functionBase is the address of the first function. No memory has such addresses.
const functionBase = 1 << 62

// functionStep is the distance of the addresses of functions.
const functionStep = 16

// Memory allocates memory for variables. It is full of zeros, and no memory of Go's.
type Memory interface {
	Allocate(size, align int64) (address uint64, bytes []byte, err error)
}

// Kernels returns all kernels, by their names.
func (p *Program) Kernels() map[string]*Kernel { return p.kernels }

// Kernel returns the kernel with a name.
func (p *Program) Kernel(name string) (*Kernel, error) {
	k := p.kernels[name]
	if k == nil {
		return nil, fmt.Errorf("there is no kernel %s", name)
	}
	return k, k.Err
}

// Variable returns a variable that is global or constant.
func (p *Program) Variable(name string) (Symbol, error) {
	s, ok := p.variables[name]
	if !ok {
		return s, fmt.Errorf("there is no variable %s", name)
	}
	return s, nil
}

// isConstant reports whether an address is in a variable in constant memory.
func (p *Program) isConstant(address uint64) bool {
	at := after(p.constants, address)
	return at > 0 && p.constants[at-1].has(address, 1)
}

// finish gives the instructions of a function their constants and targets.
func (l *linking) finish(f *function) error {
	p := l.program
	first := int32(len(p.consts))
	for _, c := range f.Consts {
		v := c.Value
		if c.Symbol != nil {
			a, err := l.addressOf(c.Symbol)
			if err != nil {
				return fmt.Errorf("%s: %w", f.Name, err)
			}
			v += a
		}
		var all vector
		for i := range all {
			all[i] = v
		}
		p.consts = append(p.consts, all)
	}
	for k := f.begin; k < f.end; k++ {
		if err := l.place(f, &p.insts[k], first); err != nil {
			return fmt.Errorf("%s: PTX line %v: %w", f.Name, p.where[k].At, err)
		}
	}
	return nil
}

// place gives an instruction its constants, which begin at first, and its targets.
func (l *linking) place(f *function, i *code.Inst, first int32) error {
	constant := func(x *int32) {
		if *x < 0 && *x != math.MinInt32 {
			*x -= first
		}
	}
	constant(&i.A)
	constant(&i.B)
	constant(&i.C)
	if i.Op == code.Branch {
		i.Imm += int64(f.begin)
	}
	if i.More == nil {
		return nil
	}
	more := *i.More
	i.More = &more
	more.Targets = append([]int32(nil), more.Targets...)
	for t := range more.Targets {
		more.Targets[t] += f.begin
	}
	more.Slots = append([]int32(nil), more.Slots...)
	// Slots of loads are results, of which -1 is one that is not wanted.
	if i.Op != code.Load && i.Op != code.LoadFrame && i.Op != code.LoadParam {
		for k := range more.Slots {
			constant(&more.Slots[k])
		}
	}
	more.Args = append([]code.Passed(nil), more.Args...)
	for k := range more.Args {
		if more.Args[k].Size == 0 {
			constant(&more.Args[k].Slot)
		}
	}
	if i.Op != code.Call {
		return nil
	}
	n := l.resolve(more.Callee)
	if n.Declared && n.builtin == nil {
		return fmt.Errorf("%s is not defined", n.Name)
	}
	i.Imm = int64((l.address[n.Function] - functionBase) / functionStep)
	return n.takes(&more)
}

// takes checks that a call has the arguments and the results of a function.
func (f *function) takes(call *code.More) error {
	switch {
	case f.builtin != nil, f.Err != nil: // an error of the lanes that enter the latter
		return nil
	case f.Kernel:
		return fmt.Errorf("%s is a kernel, which cannot be called", f.Name)
	}
	if len(call.Args) != len(f.Params) || len(call.Results) != len(f.Results) {
		return fmt.Errorf("%s is called with %d arguments and %d results; it has %d and %d",
			f.Name, len(call.Args), len(call.Results), len(f.Params), len(f.Results))
	}
	for k, a := range call.Args {
		if !goesInto(a, f.Params[k]) {
			return fmt.Errorf("%s: argument %d has %d bytes, and the parameter %d", f.Name, k,
				max(a.Size, a.Width), f.Params[k].Size)
		}
	}
	for k, r := range call.Results {
		if !goesInto(r, f.Results[k]) {
			return fmt.Errorf("%s: its result has %d bytes, not %d", f.Name, f.Results[k].Size,
				max(r.Size, r.Width))
		}
	}
	return nil
}

// goesInto reports whether what a call names has the bytes of a parameter or a result. Those of a register
// are a word.
func goesInto(p code.Passed, to code.Formal) bool {
	n := to.Size
	word := n == 1 || n == 2 || n == 4 || n == 8
	if (p.Size == 0 || to.Slot >= 0) && !word {
		return false
	}
	return n == max(p.Size, p.Width) || p.Size == 0 && p.Width == 0
}
