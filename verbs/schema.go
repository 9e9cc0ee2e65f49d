//go:build linux && (amd64 || arm64)

package verbs

import (
	"fmt"

	"github.com/nicless/nicless/verbs/internal/abi"
	"golang.org/x/sys/unix"
)

// A shape is the type of an attribute, and whether it is for the server or for the program.
type shape uint8

const (
	in              shape = iota // bytes from the program
	out                          // bytes for the program
	constant                     // a number of 8 bytes, in the attribute itself
	flagBits                     // flags, of 4 or 8 bytes
	handle                       // names an object
	destroyedHandle              // names the object that the method destroys
	newHandle                    // receives the handle of a new object
	fd                           // a descriptor of the program
	newFD                        // receives a new descriptor
)

var shapeNames = [...]string{"in", "out", "constant", "flags", "handle", "destroyed handle", "new handle",
	"descriptor", "new descriptor"}

// A field describes one attribute of a method.
type field struct {
	id       uint16
	name     string
	shape    shape
	min, max int  // number of bytes, for the shapes in and out; max 0: no limit
	grows    bool // may be longer than max, if the bytes beyond max are 0
	optional bool
	kind     kind // for a handle: the kind of object that it names
}

// A method describes one ioctl of an object.
type method struct {
	object, id uint16
	name       string
	fields     []field
	run        func(*call) error
}

// output returns the attribute for the answer of a firmware command. A method that runs firmware commands
// has one attribute for answers, this one.
func (m *method) output() uint16 {
	for i := range m.fields {
		if m.fields[i].shape == out {
			return m.fields[i].id
		}
	}
	return 0
}

func (m *method) field(id uint16) *field {
	for i := range m.fields {
		if m.fields[i].id == id {
			return &m.fields[i]
		}
	}
	return nil
}

// driverIn and driverOut describe the two attributes that carry libmlx5's private data. The
// data has at least min bytes.
func driverIn(min int) field {
	return field{id: abi.AttrUHWIn, name: "driver_in", shape: in, min: min}
}

func driverOut(min int) field {
	return field{id: abi.AttrUHWOut, name: "driver_out", shape: out, min: min}
}

// methods has every method, by object and method number.
var methods map[[2]uint16]*method

func init() { // not a literal, because methods run code that refers to this map
	methods = make(map[[2]uint16]*method)
	for _, m := range allMethods() {
		methods[[2]uint16{m.object, m.id}] = m
	}
}

func allMethods() (list []*method) {
	for _, of := range [][]*method{deviceMethods(), memoryMethods(), deviceMemoryMethods(), dmabufMethods(),
		queueMethods(), addressMethods(), umemMethods(), eventMethods()} {
		list = append(list, of...)
	}
	return list
}

// check checks the attributes of a call, and whether the objects that they name exist. It
// checks in the kernel's order, because the order decides which error a call gets.
func (c *call) check(attrs []attr) error {
	for i := range attrs {
		a := &attrs[i]
		f := c.method.field(a.id)
		if f == nil {
			if a.flags&abi.AttrFMandatory != 0 {
				return refuse(ePROTONOSUPPORT, "attribute %#x: unknown, and marked as mandatory", a.id)
			}
			continue
		}
		if c.find(a.id) != nil {
			return refuse(eINVAL, "%s (attribute %#x): given twice", f.name, a.id)
		}
		if err := f.check(a); err != nil {
			return err
		}
		c.attrs = append(c.attrs, a)
	}
	for i := range c.method.fields {
		if f := &c.method.fields[i]; !f.optional && c.find(f.id) == nil {
			return refuse(eINVAL, "%s (attribute %#x): missing", f.name, f.id)
		}
	}
	for _, a := range c.attrs {
		f := c.method.field(a.id)
		if f.shape != handle && f.shape != destroyedHandle {
			continue
		}
		o := c.x.objects[uint32(a.data)]
		switch {
		case a.data == 0 && f.kind == kindUAR:
			return refuse(eNOENT, "%s: handle 0: no UAR page has it. libmlx5 sends it if it could not map a UAR page. %s", f.name, unmapped)
		case a.data>>32 != 0 || o == nil:
			return refuse(eNOENT, "%s: handle %#x: there is no such %s", f.name, a.data, f.kind)
		case o.kind != f.kind && f.kind != kindAny:
			return refuse(eINVAL, "%s: handle %#x is a %s; a %s is needed", f.name, a.data, o.kind, f.kind)
		}
	}
	return nil
}

func (f *field) check(a *attr) error {
	n := int(a.length)
	if a.elem != 0 {
		return refuse(eINVAL, "%s: reserved bytes are %#x; they must be 0", f.name, a.elem)
	}
	switch f.shape {
	case handle, destroyedHandle, newHandle, fd, newFD:
		if n != 0 {
			return refuse(eINVAL, "%s: length %d of a handle or descriptor; it must be 0", f.name, n)
		}
		return nil
	case constant:
		if n != 8 {
			return refuse(eINVAL, "%s: %d bytes; a constant has 8", f.name, n)
		}
		return nil
	case flagBits:
		if n != 4 && n != 8 {
			return refuse(eINVAL, "%s: %d bytes; flags have 4 or 8", f.name, n)
		}
		return nil
	}
	switch {
	case n < f.min:
		return refuse(eINVAL, "%s: %d bytes; at least %d are needed", f.name, n, f.min)
	case f.max != 0 && n > f.max && !f.grows:
		return refuse(eINVAL, "%s: %d bytes; at most %d are possible", f.name, n, f.max)
	case f.shape == in && a.unreadable:
		return refuse(eFAULT, "%s: %d bytes at %#x: not readable", f.name, n, a.data)
	case f.shape == in && f.max != 0 && n > f.max:
		return zeroFrom(f.name, a.inline(), f.max, eOPNOTSUPP)
	}
	return nil
}

// zeroFrom returns an error unless all bytes of b from index known onwards are 0. They must be
// 0, because a later version of the interface may give them a meaning.
func zeroFrom(name string, b []byte, known int, errno unix.Errno) error {
	for i := known; i < len(b); i++ {
		if b[i] != 0 {
			return refuse(errno, "%s: byte %d is %#x; only the first %d bytes are known, and the others must be 0", name, i, b[i], known)
		}
	}
	return nil
}

// size says how long an attribute is, for documentation.
func (f *field) size() string {
	switch {
	case f.shape == constant:
		return "8"
	case f.shape == flagBits:
		return "4 or 8"
	case f.shape != in && f.shape != out:
		return ""
	case f.max == 0 || f.grows:
		return fmt.Sprintf("%d or more", f.min)
	case f.min == f.max:
		return fmt.Sprint(f.min)
	}
	return fmt.Sprintf("%d to %d", f.min, f.max)
}
