package naive

import (
	"encoding/binary"
	"fmt"

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
