package code

import (
	"fmt"

	"github.com/nicless/nicless/accel/ptx/internal/alu"
	"github.com/nicless/nicless/accel/ptx/internal/syntax"
)

// An Error says what is wrong with a module, and where.
type Error = syntax.Error

// A Module is the code of a PTX file.
type Module struct {
	Major, Minor int
	Target       string
	Sources      map[int]string
	Variables    []*Variable
	Functions    []*Function
	names        map[string]any // *Variable or *Function
}

// A Variable is memory that lives as long as the module: global, constant or shared. A shared one exists
// once for each block.
type Variable struct {
	At      syntax.Position
	Name    string
	Linkage syntax.Linkage
	Space   Space
	Size    int64 // bytes; of a shared one, 0 if the launch says how many there are
	Align   int64
	Managed bool
	Bytes   []byte    // the initial value; zeros follow
	Fixups  []Address // addresses in it
	Owner   *Function // of one that is declared in a function
}

// An Address is written into the initial value of a variable when addresses are known.
type Address struct {
	Offset  int64
	Width   int    // bytes
	Symbol  any    // *Variable or *Function
	Add     uint64 // added to its address
	Shift   int    // the address is shifted to the right by this
	Generic bool
}

// A Const is a value that all lanes of a function share. With a Symbol, Value is added to its address.
type Const struct {
	Value  uint64
	Symbol any // *Variable or *Function, or nil
}

// A Formal is a parameter or a result of a function: bytes of its frame, or of a kernel's parameters.
type Formal struct {
	Name        string
	Offset      int64
	Size, Align int64
	Slot        int32 // of one that is a register, -1 otherwise
}

// A Passed is an argument of a call, or where a result goes to.
type Passed struct {
	Offset, Size int64 // bytes of the caller's frame ...
	Slot         int32 // ... or a slot, or ^ a constant, if Size is 0
	Width        int64 // bytes of the register in the slot; 0: a number, which has any
}

// A Function is a kernel or a function that kernels call.
type Function struct {
	At         syntax.Position
	Name       string
	Linkage    syntax.Linkage
	Kernel     bool
	NoReturn   bool
	Params     []Formal
	Results    []Formal
	ParamBytes int64 // of all parameters of a kernel
	Slots      int   // values of a lane
	Predicates int   // bits of a lane
	FrameBytes int64 // memory of a lane
	Align      int64 // of the frame
	Limits     map[string][3]int64
	Insts      []Inst
	Where      []Where
	Consts     []Const
	Declared   bool  // there is no body: another module has it
	Err        error // the function cannot be executed
}

// scalar returns the bytes of a value of a type, by its name.
func scalar(name string) (int64, bool) {
	if t, ok := alu.ParseType(name); ok && t.Width >= 8 {
		return int64(t.Width / 8), true
	}
	return 0, false
}

// maxBytes is the most bytes of a variable: more than any GPU has.
const maxBytes = 1 << 40

// layout returns the size and the alignment of a variable, and the size of one element. The size of an
// array that does not say how long it is is 0.
func layout(v *syntax.Variable) (size, align, element int64, err error) {
	element, ok := scalar(v.Type)
	if !ok {
		return 0, 0, 0, &Error{At: v.At, Why: fmt.Sprintf("%s: variables of type .%s are not supported", v.Name, v.Type)}
	}
	size = element * int64(v.Vector)
	align = size
	if v.Align > 0 {
		align = int64(v.Align)
	}
	for _, n := range v.Sizes {
		if n < 0 {
			return 0, align, element, nil
		}
		if n > 0 && size > maxBytes/n {
			return 0, 0, 0, &Error{At: v.At, Why: fmt.Sprintf("%s has more than %d bytes", v.Name, int64(maxBytes))}
		}
		size *= n
	}
	return size, align, element, nil
}

// up returns the next multiple of a power of two.
func up(n, align int64) int64 { return (n + align - 1) &^ (align - 1) }
