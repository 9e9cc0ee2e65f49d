package code

import "github.com/nicless/nicless/accel/ptx/internal/syntax"

// Op says what an instruction does.
type Op uint8

// The operations. d is the result, a, b and c are operands: slots or constants. p is a predicate that is the
// result, q and r are predicates that are operands.
const (
	Nop Op = iota // none: no instruction has it

	// Arithmetic. Values are zero-extended from their types.
	Move     // d = a
	Add      // d = a + b
	Add32    // d = low 32 bits of a + b
	Sub      // d = a - b
	Sub32    // d = low 32 bits of a - b
	Mul      // d = a * b
	Mul32    // d = low 32 bits of a * b
	MulAdd   // d = a * b + c
	MulAdd32 // d = low 32 bits of a * b + c
	And      // d = a & b
	Or       // d = a | b
	Xor      // d = a ^ b
	Shl      // d = a << b
	Shl32    // d = low 32 bits of a << b
	Shr      // d = a >> b
	Low      // d = low Imm bits of a
	Signed   // d = low Imm bits of a with their sign, in C bits
	Func     // d = Do(a, b, c)
	FuncP    // d = Do(a, b, r)
	Select   // d = r ? a : b

	// Predicates.
	Equal        // p = a == b
	NotEqual     // p = a != b
	Below        // p = a < b
	BelowOrEqual // p = a <= b
	Less32       // p = a < b as numbers of 32 bits with a sign
	LessOrEqual32
	Less64
	LessOrEqual64
	Test  // p = Do(a, b, c) != 0
	PMove // p = q
	PNot  // p = !q
	PAnd  // p = q & r
	POr   // p = q | r
	PXor  // p = q ^ r
	PSet  // p = Imm != 0

	// Things that a lane or its block has.
	Special      // d = special register Imm
	LaneAddress  // d = address of byte Imm of the frame of this lane
	ParamAddress // d = address of byte Imm of the kernel's parameters

	// Memory. The address is a + Imm.
	Load      // slots = values
	LoadParam // slots = values at byte Imm of the kernel's parameters
	LoadFrame // slots = values at byte Imm of the frame of this lane
	Store     // values = slots
	StoreFrame
	Atomic     // d = the old value; b, c are operands
	Fence      // of an order and a scope
	ToGeneric  // d = generic address of a, which is in the space of Access
	FromShared // d = address of a in shared memory, a is generic
	InSpace    // p = a is a generic address in the space of Access
	Touch      // nothing: a prefetch, a hint, or a wait for what is done at once

	// Control.
	Branch       // to Imm
	BranchIndex  // to targets[a]
	Call         // of the callee
	CallIndirect // of the function with address a
	Return
	Exit
	Trap

	// Lanes and blocks.
	Shuffle     // d, p = a of another lane
	Vote        // d or p = votes of the lanes
	Match       // d, p = lanes with the same a
	Reduce      // d = a of all lanes
	Elect       // d, p = the first lane
	ActiveMask  // d = lanes that are here
	WarpBarrier // a: lanes
	Barrier     // a: number, b: threads
	MBarrier
	BulkCopy
	Sleep // a: nanoseconds

	numOps
)

// None stands for a predicate that is not there.
const None = -1

// An Inst is an instruction.
type Inst struct {
	Op      Op
	Negated bool  // executed if the guard is false
	Guard   int16 // a predicate, or None
	D       int32 // a slot
	A, B, C int32 // slots, or ^ numbers of constants
	P       int16 // the predicate that is a result, or None
	Q, R    int16 // predicates that are operands, or None
	Imm     int64
	Do      func(a, b, c uint64) uint64
	More    *More
}

// More is what few operations have.
type More struct {
	Access   Access
	Slots    []int32 // of a vector: -1 for elements that are not wanted
	Widths   []uint8 // of a Load: the bits of the registers in Slots
	Targets  []int32
	Callee   *Function
	Results  []Passed // of a call
	Args     []Passed
	Kind     int // of a Shuffle, Vote, Reduce, Barrier, ...
	Distinct bool
	Plain    bool // of a Load: of one value, which is wanted, and has no sign
	Bulk     *Bulk
}

// Where is the place of an instruction.
type Where struct {
	At     syntax.Position
	Source syntax.Source
}
