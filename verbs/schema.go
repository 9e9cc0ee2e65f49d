package verbs

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// A shape is what an attribute is and which way it goes.
type shape uint8

const (
	in        shape = iota // bytes for us
	out                    // bytes for the program
	constant               // a number of 8 bytes, always in place
	flagBits               // flags, of 4 or 8 bytes
	handle                 // names an object
	doomed                 // names an object that the method destroys
	newHandle              // for the handle of a new object
	fd                     // a descriptor of the program
	newFD                  // for a new descriptor
)

var shapeNames = [...]string{"in", "out", "constant", "flags", "handle", "handle, destroyed", "new handle", "descriptor", "new descriptor"}

// A field is an attribute of a method.
type field struct {
	id       uint16
	name     string
	shape    shape
	min, max int  // bytes of in and out; max 0: any more
	grows    bool // later versions may have more; what we do not know must be 0
	optional bool
	kind     kind // of the object of a handle
}

// A method is one ioctl of an object.
type method struct {
	object, id uint16
	name       string
	fields     []field
	run        func(*call) error
}

func (m *method) field(id uint16) *field {
	for i := range m.fields {
		if m.fields[i].id == id {
			return &m.fields[i]
		}
	}
	return nil
}

// Attributes that most methods of a driver have.
const (
	uhwIn  = 0x1000
	uhwOut = 0x1001
)

// driverIn and driverOut are private data of libmlx5, of at least so many bytes.
func driverIn(min int) field {
	return field{id: uhwIn, name: "driver_in", shape: in, min: min}
}

func driverOut(min int) field {
	return field{id: uhwOut, name: "driver_out", shape: out, min: min}
}

// methods is all that there are, by object and method.
var methods map[[2]uint16]*method

func init() { // not a literal: methods run code that looks into it
	methods = make(map[[2]uint16]*method)
	for _, m := range allMethods() {
		methods[[2]uint16{m.object, m.id}] = m
	}
}

func allMethods() (list []*method) {
	for _, of := range [][]*method{deviceMethods(), memoryMethods(), queueMethods(), addressMethods()} {
		list = append(list, of...)
	}
	return list
}

// check judges the attributes of a call as the kernel does, and finds the
// objects that they name.
func (c *call) check(attrs []attr) error {
	for i := range attrs {
		a := &attrs[i]
		f := c.method.field(a.id)
		if f == nil {
			if a.flags&attrMandatory != 0 {
				return refuse(ePROTONOSUPPORT, "attribute %#x: unknown, and said to be mandatory", a.id)
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
		if f.shape != handle && f.shape != doomed {
			continue
		}
		o := c.x.objects[uint32(a.data)]
		switch {
		case a.data>>32 != 0 || o == nil:
			return refuse(eNOENT, "%s: handle %#x: there is no such %s", f.name, a.data, f.kind)
		case o.kind != f.kind:
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
	case handle, doomed, newHandle, fd, newFD:
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

// zeroFrom refuses what a later version means by bytes that this one does not know.
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
