package verbs

import (
	"os"

	"golang.org/x/sys/unix"
)

// A call is one ioctl: its arguments as they were judged, and what is answered.
type call struct {
	p      *process
	x      *uctx
	method *method
	write  *writeCommand // of INVOKE_WRITE
	attrs  []*attr

	results []wireResult
	files   []*os.File // that came along, for results of needFD in order
	needs   []wireNeed
	lent    []*os.File // memory of the needs; not ours to close

	outs []wireOut
	give []*os.File // for the program
	size int        // of outs
}

// name says what is called, for the log.
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

// bytes returns what came in an attribute, nothing if it was not given.
func (c *call) bytes(id uint16) []byte {
	if a := c.find(id); a != nil {
		return a.inline()
	}
	return nil
}

// value returns a number of up to 8 bytes, 0 if it was not given.
func (c *call) value(id uint16) uint64 {
	var b [8]byte
	copy(b[:], c.bytes(id))
	return le.Uint64(b[:])
}

func (c *call) value32(id uint16) uint32 { return uint32(c.value(id)) }

// room returns how many bytes the program takes.
func (c *call) room(id uint16) int {
	if a := c.find(id); a != nil {
		return int(a.length)
	}
	return 0
}

// put answers bytes: as many as the program takes, and zeros where it takes more
// than there are.
func (c *call) put(id uint16, b []byte) {
	a := c.find(id)
	if a == nil {
		return
	}
	whole := make([]byte, a.length)
	copy(whole, b)
	c.outs = append(c.outs, wireOut{attr: a.index, kind: outBytes, bytes: whole})
	c.size += outSize + padded(len(whole))
}

func (c *call) put32(id uint16, v ...uint32) {
	var b []byte
	for _, w := range v {
		b = le.AppendUint32(b, w)
	}
	c.put(id, b)
}

func (c *call) put64(id uint16, v uint64) { c.put(id, le.AppendUint64(nil, v)) }

// putHandle answers the handle of a new object.
func (c *call) putHandle(id uint16, o *object) {
	c.outs = append(c.outs, wireOut{attr: c.find(id).index, kind: outValue, value: uint64(o.handle)})
}

// putFile answers a new descriptor, which is sent and then closed here.
func (c *call) putFile(id uint16, f *os.File) {
	c.outs = append(c.outs, wireOut{attr: c.find(id).index, kind: outFD, value: uint64(len(c.give))})
	c.give = append(c.give, f)
}

// putFileInside is putFile for one that lies at the beginning of an answer of so
// many bytes.
func (c *call) putFileInside(id uint16, f *os.File, n int) {
	c.put(id, make([]byte, n))
	c.outs = append(c.outs, wireOut{attr: c.find(id).index, kind: outFDInside, value: uint64(len(c.give)) << 32})
	c.give = append(c.give, f)
}

// file returns a descriptor of the program that an attribute names, and nil when
// there is no such attribute. The caller takes it over if it keeps it.
func (c *call) file(id uint16) (*os.File, error) {
	a := c.find(id)
	if a == nil {
		return nil, nil
	}
	n := 0
	for _, r := range c.results {
		switch {
		case r.kind != needFD:
		case r.attr != a.index:
			if r.errno == 0 {
				n++
			}
		case r.errno != 0:
			return nil, refuse(eBADF, "%s: descriptor %d: %v", c.method.field(id).name, int32(a.data), unix.Errno(r.errno))
		case n >= len(c.files) || c.files[n] == nil:
			return nil, refuse(eBADF, "%s: descriptor %d did not come along", c.method.field(id).name, int32(a.data))
		default:
			return c.files[n], nil
		}
	}
	c.needs = append(c.needs, wireNeed{attr: a.index, kind: needFD})
	return nil, errAgain
}

// keep takes over a file that came along: it is not closed with the call.
func (c *call) keep(f *os.File) {
	for i := range c.files {
		if c.files[i] == f {
			c.files[i] = nil
		}
	}
}

// objectOf returns the object that an attribute names, nil if it was not given.
// Its kind was checked.
func objectOf[T any](c *call, id uint16) (self T) {
	if a := c.find(id); a != nil {
		self, _ = c.x.objects[uint32(a.data)].self.(T)
	}
	return self
}

// lookup returns an object that a struct names.
func lookup[T any](c *call, name string, h uint32, k kind) (self T, err error) {
	o := c.x.objects[h]
	if o == nil || o.kind != k {
		return self, refuse(eINVAL, "%s: handle %#x: there is no such %s", name, h, k)
	}
	return o.self.(T), nil
}
