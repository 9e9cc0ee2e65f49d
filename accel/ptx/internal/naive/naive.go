package naive

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nicless/nicless/accel/ptx/internal/syntax"
)

// A Launch is a block of threads.
type Launch struct {
	Module  *syntax.Module
	Kernel  string
	Threads int
	Params  []byte
	Memory  []byte // global memory ...
	Base    uint64 // ... which begins here
}

// A block is a block that is executed.
type block struct {
	*Launch
	functions map[string]*syntax.Function
	shared    map[string]uint64 // offsets
	sharedMem []byte
	lanes     []*lane
}

// A lane is a thread. Its state is that of the call it is in.
type lane struct {
	*block
	tid    int
	stack  []*call
	done   bool
	steps  int
	waits  *syntax.Instruction // it has come to an operation of several lanes
	barred bool                // waits is a barrier of the block
}

// A call is a function that a lane is in.
type call struct {
	fn     *syntax.Function
	body   []any // instructions and labels, without blocks
	labels map[string]int
	pc     int
	regs   map[string]uint64
	preds  map[string]bool
	types  map[string]string // of registers
	local  map[string]uint64 // addresses of variables and parameters in frame
	frame  []byte
	into   []syntax.Operand // where the caller wants results
}

// frameBase is the address of local memory. Addresses in naive are those of local variables of the call that
// is under way; other frames cannot be reached.
const frameBase = 1 << 40

// most is how many instructions a lane executes at most.
const most = 1_000_000

// Run executes the kernel. It returns an error for an instruction that it does not know, and for lanes that
// do not end.
func Run(l *Launch) error {
	b := &block{Launch: l, functions: map[string]*syntax.Function{}, shared: map[string]uint64{}}
	for _, f := range l.Module.Functions {
		if f.Body != nil {
			b.functions[f.Name] = f
		}
	}
	for _, v := range l.Module.Variables {
		b.variable(v)
	}
	k := b.functions[l.Kernel]
	if k == nil {
		return fmt.Errorf("there is no kernel %s", l.Kernel)
	}
	for tid := range l.Threads {
		n := &lane{block: b, tid: tid}
		c := n.enter(k)
		off := uint64(0)
		for _, p := range k.Params {
			n := size(p.Type)
			off = (off + n - 1) / n * n
			copy(c.frame[c.local[p.Name]-frameBase:][:n], l.Params[off:])
			off += n
		}
		b.lanes = append(b.lanes, n)
	}
	for !b.over() {
		moved := false
		for _, n := range b.lanes {
			if n.done || n.waits != nil {
				continue
			}
			moved = true
			if err := n.step(); err != nil {
				return fmt.Errorf("thread %d: %w", n.tid, err)
			}
		}
		if !moved && !b.resume() {
			return fmt.Errorf("all threads wait for each other")
		}
	}
	return nil
}

func (b *block) over() bool {
	return !slices.ContainsFunc(b.lanes, func(n *lane) bool { return !n.done })
}

// variable gives a shared variable its place.
func (b *block) variable(v *syntax.Variable) {
	if v.Space != "shared" {
		return
	}
	n := size(v.Type)
	for _, k := range v.Sizes {
		n *= uint64(k)
	}
	at := (uint64(len(b.sharedMem)) + 15) / 16 * 16
	b.shared[v.Name] = at
	b.sharedMem = append(b.sharedMem, make([]byte, at+n-uint64(len(b.sharedMem)))...)
}

// enter begins a function.
func (n *lane) enter(f *syntax.Function) *call {
	c := &call{
		fn: f, labels: map[string]int{}, regs: map[string]uint64{}, preds: map[string]bool{},
		types: map[string]string{}, local: map[string]uint64{},
	}
	for _, v := range slices.Concat(f.Params, f.Results) {
		c.declare(v)
	}
	c.flatten(f.Body)
	n.stack = append(n.stack, c)
	return c
}

// flatten lists the statements of a block. Names in inner blocks must differ from all others.
func (c *call) flatten(b *syntax.Block) {
	for _, s := range b.Statements {
		switch s := s.(type) {
		case *syntax.Block:
			c.flatten(s)
		case *syntax.Label:
			c.labels[s.Name] = len(c.body)
		case *syntax.Variable:
			c.declare(s)
		case *syntax.Instruction:
			c.body = append(c.body, s)
		}
	}
}

// declare makes registers or local variables.
func (c *call) declare(v *syntax.Variable) {
	if v.Space == "reg" {
		if v.Count < 0 {
			c.types[v.Name] = v.Type
			return
		}
		for k := range v.Count {
			c.types[fmt.Sprintf("%s%d", v.Name, k)] = v.Type
		}
		return
	}
	n := size(v.Type)
	for _, k := range v.Sizes {
		n *= uint64(k)
	}
	at := (uint64(len(c.frame)) + 15) / 16 * 16
	c.local[v.Name] = frameBase + at
	c.frame = append(c.frame, make([]byte, at+n-uint64(len(c.frame)))...)
}

// step executes one instruction of a lane.
func (n *lane) step() error {
	c := n.stack[len(n.stack)-1]
	n.steps++
	if n.steps > most {
		return fmt.Errorf("more than %d instructions", most)
	}
	if c.pc >= len(c.body) {
		return n.leave()
	}
	i := c.body[c.pc].(*syntax.Instruction)
	c.pc++
	if i.Guard != "" && c.preds[i.Guard] == i.Negated {
		return nil
	}
	if err := n.execute(c, i); err != nil {
		return fmt.Errorf("%v: %s: %w", i.At, i.Op.Text, err)
	}
	return nil
}

// execute executes an instruction.
func (n *lane) execute(c *call, i *syntax.Instruction) error {
	switch i.Op.Base {
	case "bra":
		c.pc = c.labels[i.Operands[0].Name]
		return nil
	case "exit":
		n.done = true
		return nil
	case "ret":
		return n.leave()
	case "call":
		return n.call(c, i)
	case "ld", "st", "atom", "red", "cvta":
		return n.memory(c, i)
	case "bar", "barrier", "shfl", "vote", "match", "redux":
		n.waits, n.barred = i, strings.HasPrefix(i.Op.Base, "bar")
		return nil
	}
	return n.compute(c, i)
}

// call enters a function with parameters in the frame.
func (n *lane) call(c *call, i *syntax.Instruction) error {
	ops := i.Operands
	var results []syntax.Operand
	if len(ops) > 0 && ops[0].Kind == syntax.Group {
		results, ops = ops[0].List, ops[1:]
	}
	f := n.functions[ops[0].Name]
	if f == nil {
		return fmt.Errorf("there is no function %s", ops[0].Name)
	}
	var args []syntax.Operand
	if len(ops) > 1 {
		args = ops[1].List
	}
	to := n.enter(f)
	to.into = results
	for k, p := range f.Params {
		from := c.local[args[k].Name] - frameBase
		copy(to.frame[to.local[p.Name]-frameBase:][:size(p.Type)], c.frame[from:])
	}
	return nil
}

// leave returns to the caller.
func (n *lane) leave() error {
	c := n.stack[len(n.stack)-1]
	n.stack = n.stack[:len(n.stack)-1]
	if len(n.stack) == 0 {
		n.done = true
		return nil
	}
	back := n.stack[len(n.stack)-1]
	for k, r := range c.fn.Results {
		to := back.local[c.into[k].Name] - frameBase
		copy(back.frame[to:][:size(r.Type)], c.frame[c.local[r.Name]-frameBase:])
	}
	return nil
}

// value returns the value of an operand.
func (n *lane) value(c *call, o syntax.Operand) (uint64, error) {
	switch {
	case o.Kind == syntax.Number:
		return o.Value.Bits, nil
	case o.Kind != syntax.Name:
		return 0, fmt.Errorf("a %v is no value", o.Kind)
	case o.Name == "%tid" && o.Part == "x":
		return uint64(n.tid), nil
	case o.Name == "%ntid" && o.Part == "x":
		return uint64(n.Threads), nil
	case o.Name == "%laneid":
		return uint64(n.tid % 32), nil
	case c.types[o.Name] != "":
		return c.regs[o.Name], nil
	}
	if at, ok := n.shared[o.Name]; ok {
		return at + o.Value.Bits, nil
	}
	if at, ok := c.local[o.Name]; ok {
		return at + o.Value.Bits, nil
	}
	return 0, fmt.Errorf("%s is not known", o.Name)
}

// set writes a register; of the value, as many bits count as the register has.
func (c *call) set(o syntax.Operand, v uint64) {
	if o.Kind != syntax.Discard {
		c.regs[o.Name] = v & mask(8*size(c.types[o.Name]))
	}
}

// size returns the bytes of a type.
func size(name string) uint64 {
	switch strings.TrimLeft(name, "bsuf") {
	case "8":
		return 1
	case "16":
		return 2
	case "32":
		return 4
	}
	return 8
}

func mask(bits uint64) uint64 {
	if bits >= 64 {
		return ^uint64(0)
	}
	return 1<<bits - 1
}
