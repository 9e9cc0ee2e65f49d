//go:build linux && (amd64 || arm64)

package verbs

import (
	"os"

	"github.com/nicless/nicless/internal/nic"
	"golang.org/x/sys/unix"
)

// A call is one ioctl: its arguments, after they have been checked, and its answer.
type call struct {
	p      *process
	x      *uctx
	method *method
	write  *writeCommand // set if the method is INVOKE_WRITE
	attrs  []*attr

	results []wireResult
	// Sent by the shim: one for each result of kind needFD or needFDNumber that has no error, in the order of
	// results.
	files []nic.File
	needs []wireNeed
	// Memory that the shim is to map, one file for each need to remap; each is closed with its extent.
	lent []*os.File

	outs []wireOut
	give []*os.File // descriptors for the program
}

// name returns the name of the method or write command, for the log.
func (c *call) name() string {
	switch {
	case c.write != nil:
		return "WRITE." + c.write.name
	case c.method != nil:
		return c.method.name
	}
	return "unknown"
}

// find returns an attribute, nil if it was not given.
func (c *call) find(id uint16) *attr {
	for _, a := range c.attrs {
		if a.id == id {
			return a
		}
	}
	return nil
}

// bytes returns the bytes of an attribute, none if it was not given.
func (c *call) bytes(id uint16) []byte {
	if a := c.find(id); a != nil {
		return a.inline()
	}
	return nil
}

// value returns an attribute as a number of up to 8 bytes, 0 if it was not given.
func (c *call) value(id uint16) uint64 {
	var b [8]byte
	copy(b[:], c.bytes(id))
	return le.Uint64(b[:])
}

func (c *call) value32(id uint16) uint32 { return uint32(c.value(id)) }

// room returns how many bytes the answer in an attribute may have, 0 if it was not given.
func (c *call) room(id uint16) int {
	if a := c.find(id); a != nil {
		return int(a.length)
	}
	return 0
}

// put adds the bytes b to the answer, for the attribute id. They are cut, or filled up with
// zeros, to the attribute's room.
func (c *call) put(id uint16, b []byte) {
	a := c.find(id)
	if a == nil {
		return
	}
	whole := make([]byte, a.length)
	copy(whole, b)
	c.outs = append(c.outs, wireOut{attr: a.index, kind: outBytes, bytes: whole})
}

func (c *call) put32(id uint16, v ...uint32) {
	var b []byte
	for _, w := range v {
		b = le.AppendUint32(b, w)
	}
	c.put(id, b)
}

func (c *call) put64(id uint16, v uint64) { c.put(id, le.AppendUint64(nil, v)) }

// putHandle adds the handle of a new object to the answer.
func (c *call) putHandle(id uint16, o *object) {
	c.outs = append(c.outs, wireOut{attr: c.find(id).index, kind: outValue, value: uint64(o.handle)})
}

// putFile adds a new descriptor to the answer. This server closes its copy after sending it.
func (c *call) putFile(id uint16, f *os.File) {
	c.outs = append(c.outs, wireOut{attr: c.find(id).index, kind: outFD, value: uint64(len(c.give))})
	c.give = append(c.give, f)
}

// putFileInside does the same as putFile, for a descriptor whose number is the first field of
// a response of n bytes.
func (c *call) putFileInside(id uint16, f *os.File, n int) {
	c.put(id, make([]byte, n))
	c.outs = append(c.outs, wireOut{attr: c.find(id).index, kind: outFDInside,
		value: uint64(len(c.give)) << 32})
	c.give = append(c.give, f)
}

// file returns a copy of the program's descriptor that an attribute names, nil if there is
// no such attribute, and errAgain if the shim has yet to send the copy. The file is closed
// at the end of the call unless the caller calls keep.
func (c *call) file(id uint16) (nic.File, error) {
	a := c.find(id)
	if a == nil {
		return nil, nil
	}
	n := 0
	for _, r := range c.results {
		switch {
		case r.kind != needFD && r.kind != needFDNumber:
		case r.kind != needFD || r.attr != a.index:
			if r.errno == 0 {
				n++
			}
		case r.errno != 0:
			return nil, refuse(eBADF, "%s: descriptor %d: %v", c.method.field(id).name, int32(a.data),
				unix.Errno(r.errno))
		case n >= len(c.files) || c.files[n] == nil:
			return nil, refuse(eBADF, "%s: descriptor %d was not sent", c.method.field(id).name, int32(a.data))
		default:
			return c.files[n], nil
		}
	}
	c.needs = append(c.needs, wireNeed{attr: a.index, kind: needFD})
	return nil, errAgain
}

// fileNumber does the same as file, for the descriptor with the number fd, which is in a
// structure.
func (c *call) fileNumber(fd int32) (nic.File, error) {
	n := 0
	for _, r := range c.results {
		switch {
		case r.kind != needFD && r.kind != needFDNumber:
		case r.kind != needFDNumber || r.addr != uint64(fd):
			if r.errno == 0 {
				n++
			}
		case r.errno != 0:
			return nil, refuse(eBADF, "descriptor %d: %v", fd, unix.Errno(r.errno))
		case n >= len(c.files) || c.files[n] == nil:
			return nil, refuse(eBADF, "descriptor %d was not sent", fd)
		default:
			return c.files[n], nil
		}
	}
	c.needs = append(c.needs, wireNeed{kind: needFDNumber, addr: uint64(fd)})
	return nil, errAgain
}

// keep takes over a received file, so that it is not closed at the end of the call.
func (c *call) keep(f nic.File) {
	for i := range c.files {
		if c.files[i] == f {
			c.files[i] = nil
		}
	}
}

// objectOf returns the object that an attribute names, nil if the attribute was not given.
// call.check has checked the kind of the object.
func objectOf[T any](c *call, id uint16) (self T) {
	if a := c.find(id); a != nil {
		self, _ = c.x.objects[uint32(a.data)].self.(T)
	}
	return self
}

// lookup returns the object whose handle is in a field of a structure.
func lookup[T any](c *call, name string, h uint32, k kind) (self T, err error) {
	o := c.x.objects[h]
	if o == nil || o.kind != k {
		return self, refuse(eINVAL, "%s: handle %#x: there is no such %s", name, h, k)
	}
	return o.self.(T), nil
}
