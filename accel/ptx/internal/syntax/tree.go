package syntax

import "fmt"

// A Position is a place in the text. Lines and columns count from 1; columns count bytes.
type Position struct{ Line, Column int32 }

func (p Position) String() string { return fmt.Sprintf("%d:%d", p.Line, p.Column) }

// An Error says what is wrong with a text, and where.
type Error struct {
	At  Position
	Why string
}

func (e *Error) Error() string { return e.At.String() + ": " + e.Why }

// A Module is a PTX file.
type Module struct {
	Major, Minor int      // of .version
	Targets      []string // of .target: sm_80 and options such as debug
	AddressSize  int      // bits: 32 or 64
	Sources      map[int]string
	Variables    []*Variable
	Functions    []*Function
	Aliases      []Alias
}

// An Alias gives the function Of the name Name too.
type Alias struct {
	At       Position
	Name, Of string
}

// Linkage says who may refer to a name.
type Linkage uint8

// The linkages. Local names are seen in their module only.
const (
	Local Linkage = iota
	Extern
	Visible
	Weak
	Common
)

// A Variable is a variable, a parameter, or a group of registers.
type Variable struct {
	At      Position
	Linkage Linkage
	Space   string // reg, global, const, shared, local, param, ...
	Align   int    // bytes; 0 if none is given
	Managed bool
	Vector  int    // elements of a vector type: 1, 2, 4 or 8
	Type    string // b8, u32, pred, ...
	Pointer bool   // a parameter with .ptr
	Name    string
	Count   int     // of registers name0, name1, ... as %r<5> makes; -1: one with this name
	Sizes   []int64 // of an array, outermost first; -1: not given
	Initial *Initial
}

// An Initial is the initial value of a variable: a list, or one value.
type Initial struct {
	At     Position
	List   []Initial
	IsList bool
	Value  Constant
	Symbol string // its address is added to Value, ...
	// ... as a generic address ...
	Generic bool
	// ... of which only the byte under this mask is taken, if it is not 0.
	Mask uint64
}

// A Function is an entry or another function. Body is nil if it is only declared.
type Function struct {
	At       Position
	Linkage  Linkage
	Entry    bool
	Name     string
	Results  []*Variable
	Params   []*Variable
	NoReturn bool
	Limits   map[string][3]int64 // performance directives, such as maxntid; missing numbers are 1
	Body     *Block
}

// A Block is what stands between braces.
type Block struct{ Statements []Statement }

// A Statement is an *Instruction, a *Label, a *Variable, a *Block, a *Prototype or a *Table.
type Statement any

// A Label names the next instruction of its function.
type Label struct {
	At   Position
	Name string
}

// A Prototype is what .callprototype says of functions that are called by their address.
type Prototype struct {
	At              Position
	Name            string
	Results, Params []*Variable
	NoReturn        bool
}

// A Table lists labels to which brx.idx may branch, or functions that an indirect call may call.
type Table struct {
	At    Position
	Name  string
	Calls bool // .calltargets, not .branchtargets
	Names []string
}

// An Opcode is the name of an instruction. Instructions of a module with the same text share it.
type Opcode struct {
	Text string   // st.release.gpu.global.b64
	Base string   // st
	Mods []string // release, gpu, global, b64
}

// A Source is a position of the program from which the PTX was compiled. Its zero value is none.
type Source struct{ File, Line int }

// An Instruction is an instruction and its guard.
type Instruction struct {
	At       Position
	Source   Source
	Guard    string // the predicate register, or ""
	Negated  bool   // the instruction is executed if the guard is false
	Op       *Opcode
	Operands []Operand
}

// Kind is the kind of an operand.
type Kind uint8

// The kinds of operands.
const (
	Name    Kind = iota // a register, symbol or label, plus Value.Bits; of a vector, Part
	Number              // Value
	Address             // that of Name, if there is one, plus Value.Bits
	List                // {a, b}: the elements of a vector
	Group               // (a, b): the arguments of a call
	Pair                // a|b: two results
	Discard             // _
)

func (k Kind) String() string {
	return [...]string{"name", "number", "address", "vector", "group", "pair", "_"}[k]
}

// An Operand is an operand of an instruction.
type Operand struct {
	At      Position
	Kind    Kind
	Negated bool // !p
	Name    string
	Part    string // x, y, z or w
	Value   Constant
	List    []Operand
}

// A Constant is a number.
type Constant struct {
	Type ConstantType
	Bits uint64 // of Single: 32 bits
}

// ConstantType is the type of a number.
type ConstantType uint8

// The types of numbers.
const (
	Signed ConstantType = iota
	Unsigned
	Single // 0f3F800000
	Double // 0d3FF0000000000000, 1.5
)
