package naive

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/nicless/nicless/accel/ptx/internal/syntax"
)

// at returns the bytes at an address in a space.
func (n *lane) at(c *call, space string, address, count uint64) ([]byte, error) {
	mem, off := n.Memory, address-n.Base
	switch {
	case space == "shared":
		mem, off = n.sharedMem, address&mask(32)
	case address-frameBase < uint64(len(c.frame)):
		mem, off = c.frame, address-frameBase
	}
	if off > uint64(len(mem)) || count > uint64(len(mem))-off {
		return nil, fmt.Errorf("%d bytes at 0x%x of %s memory", count, address, space)
	}
	return mem[off:][:count], nil
}

func read(b []byte) uint64 {
	var word [8]byte
	copy(word[:], b)
	return binary.LittleEndian.Uint64(word[:])
}

func write(b []byte, v uint64) {
	var word [8]byte
	binary.LittleEndian.PutUint64(word[:], v)
	copy(b, word[:])
}

// space returns the space that an instruction names.
func space(i *syntax.Instruction) string {
	for _, m := range i.Op.Mods {
		switch m {
		case "shared", "global", "local", "param":
			return m
		}
	}
	return "generic"
}

// address returns the address that an operand names.
func (n *lane) address(c *call, o syntax.Operand) (uint64, error) {
	if o.Name == "" {
		return o.Value.Bits, nil
	}
	v, err := n.value(c, syntax.Operand{Kind: syntax.Name, Name: o.Name})
	return v + o.Value.Bits, err
}

// memory executes an access.
func (n *lane) memory(c *call, i *syntax.Instruction) error {
	t := i.Op.Mods[len(i.Op.Mods)-1]
	width := size(t)
	switch i.Op.Base {
	case "cvta":
		v, err := n.value(c, i.Operands[1])
		c.set(i.Operands[0], v)
		return err
	case "ld":
		to := []syntax.Operand{i.Operands[0]}
		if to[0].Kind == syntax.List {
			to = to[0].List
		}
		address, err := n.address(c, i.Operands[1])
		if err != nil {
			return err
		}
		b, err := n.at(c, space(i), address, width*uint64(len(to)))
		if err != nil {
			return err
		}
		for k, o := range to {
			v := read(b[uint64(k)*width:][:width])
			c.set(o, bitsOf(number(v, t), 64))
		}
		return nil
	case "st":
		from := []syntax.Operand{i.Operands[1]}
		if from[0].Kind == syntax.List {
			from = from[0].List
		}
		address, err := n.address(c, i.Operands[0])
		if err != nil {
			return err
		}
		b, err := n.at(c, space(i), address, width*uint64(len(from)))
		if err != nil {
			return err
		}
		for k, o := range from {
			v, err := n.value(c, o)
			if err != nil {
				return err
			}
			write(b[uint64(k)*width:][:width], v)
		}
		return nil
	}
	return n.atomic(c, i, t)
}

// atomic executes atom and red.
func (n *lane) atomic(c *call, i *syntax.Instruction, t string) error {
	ops := i.Operands
	if i.Op.Base == "red" {
		ops = slices.Concat([]syntax.Operand{{Kind: syntax.Discard}}, ops)
	}
	address, err := n.address(c, ops[1])
	if err != nil {
		return err
	}
	b, err := n.at(c, space(i), address, size(t))
	if err != nil {
		return err
	}
	var in []uint64
	for _, o := range ops[2:] {
		v, err := n.value(c, o)
		if err != nil {
			return err
		}
		in = append(in, v&mask(8*size(t)))
	}
	old := read(b)
	var now uint64
	switch how := i.Op.Mods[len(i.Op.Mods)-2]; how {
	case "exch":
		now = in[0]
	case "cas":
		now = old
		if old == in[0] {
			now = in[1]
		}
	case "inc":
		if old < in[0] {
			now = old + 1
		}
	case "dec":
		now = old - 1
		if old == 0 || old > in[0] {
			now = in[0]
		}
	default:
		now, err = integer(&syntax.Opcode{Base: how, Mods: []string{t}}, []uint64{old, in[0]})
		if err != nil {
			return err
		}
	}
	write(b, now)
	c.set(ops[0], old)
	return nil
}
