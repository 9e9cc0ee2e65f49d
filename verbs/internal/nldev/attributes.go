//go:build linux && (amd64 || arm64)

package nldev

import (
	"bytes"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// A shape is how the value of an attribute looks in a request.
type shape uint8

const (
	anything shape = iota
	number8
	number32
	number64
	text   // ends with a 0 byte
	nested // attributes
)

// policy is nldev_policy, without attributes that only answers have: nobody reads them in requests.
var policy = map[uint16]struct {
	shape shape
	most  int // of a text: bytes without its 0 byte
}{
	AttrDevIndex: {number32, 0}, AttrDevName: {text, MaxName}, AttrPortIndex: {number32, 0},
	AttrResLQPN: {number32, 0}, AttrNetdevName: {text, unix.IFNAMSIZ}, AttrResPDN: {number32, 0},
	AttrResCQN: {number32, 0}, AttrResMRN: {number32, 0}, AttrResCMIDN: {number32, 0},
	AttrResCtxN: {number32, 0}, AttrResSRQN: {number32, 0}, AttrLinkType: {text, unix.IFNAMSIZ},
	AttrSysNetnsMode: {number8, 0}, AttrNetnsFD: {number32, 0}, AttrCharDevType: {text, MaxCharDevType},
	AttrStatMode: {number32, 0}, AttrStatRes: {number32, 0}, AttrStatAutoMask: {number32, 0},
	AttrStatCounterID: {number32, 0}, AttrDevDim: {number8, 0}, AttrDriverDetails: {number8, 0},
	attrHWCounters: {nested, 0}, attrPrivilegedQKey: {number8, 0}, attrOpCounters: {number8, 0},
}

var sizes = [...]int{number8: 1, number32: 4, number64: 8, text: 0, nested: 0}

// Attributes are those of a request, by their number. If a request has an attribute twice, the last one
// counts.
type Attributes map[uint16][]byte

// A ParseError is why a request's attributes are refused. Text is the kernel's, for those who ask for it.
type ParseError struct {
	Errno unix.Errno
	Text  string
}

func (e *ParseError) Error() string { return e.Text }

// Parse parses the attributes of a request. If strict is false, it ignores what the kernel ignores in
// requests that are older than its strict checks: attributes that nobody knows, bytes after the last
// attribute, and values that are too long.
func Parse(m Message, strict bool) (Attributes, error) {
	list, left, err := split(m.Raw[HeaderSize:])
	if err != nil {
		return nil, err
	}
	all := make(Attributes, len(list))
	for _, a := range list {
		kind := a.Attr.Type & typeMask
		if kind == 0 || kind > maxAttr {
			if strict {
				return nil, &ParseError{unix.EINVAL, "Unknown attribute type"}
			}
			continue
		}
		if err := check(kind, a.Attr.Type, a.Value, strict); err != nil {
			return nil, err
		}
		all[kind] = a.Value
	}
	if left > 0 && strict {
		return nil, &ParseError{unix.EINVAL, "bytes leftover after parsing attributes"}
	}
	return all, nil
}

// split returns the attributes up to the first one whose length is wrong, and the number of bytes after them.
func split(b []byte) (list []syscall.NetlinkRouteAttr, left int, err error) {
	end := 0
	for len(b)-end >= unix.SizeofRtAttr {
		n := int(ne.Uint16(b[end:]))
		if n < unix.SizeofRtAttr || n > len(b)-end {
			break
		}
		end = min(end+align(n), len(b))
	}
	// The parser expects that the last attribute is padded like the others.
	whole := make([]byte, align(end))
	copy(whole, b[:end])
	list, err = nl.ParseRouteAttr(whole)
	return list, len(b) - end, err
}

func check(kind, withFlags uint16, value []byte, strict bool) error {
	p := policy[kind]
	wrong := func(e unix.Errno, text string) error { return &ParseError{e, text} }
	if strict && p.shape != anything {
		flagged := withFlags&flagNested != 0
		switch {
		case sizes[p.shape] != 0 && len(value) != sizes[p.shape]:
			return wrong(unix.EINVAL, "invalid attribute length")
		case p.shape == nested && !flagged:
			return wrong(unix.EINVAL, "NLA_F_NESTED is missing")
		case p.shape != nested && flagged:
			return wrong(unix.EINVAL, "NLA_F_NESTED not expected")
		}
	}
	const failed = "Attribute failed policy validation"
	switch {
	case p.shape == text && len(value) == 0:
		return wrong(unix.EINVAL, failed)
	case p.shape == text:
		end := bytes.IndexByte(value[:min(len(value), p.most+1)], 0)
		if end < 0 {
			return wrong(unix.EINVAL, failed)
		}
	case len(value) < sizes[p.shape]:
		return wrong(unix.ERANGE, failed)
	}
	return nil
}

// Uint32 returns the value of an attribute that policy says is a number of 32 bits.
func (a Attributes) Uint32(kind uint16) (v uint32, ok bool) {
	b, ok := a[kind]
	if !ok || len(b) < 4 {
		return 0, false
	}
	return ne.Uint32(b), true
}

// Has reports whether the request has an attribute.
func (a Attributes) Has(kind uint16) bool {
	_, ok := a[kind]
	return ok
}

// Text returns the value of an attribute that policy says is a text, without its 0 byte.
func (a Attributes) Text(kind uint16) string {
	s, _, _ := bytes.Cut(a[kind], []byte{0})
	return string(s)
}

// Flag reports whether an attribute of 8 bits is there and not 0.
func (a Attributes) Flag(kind uint16) bool { return len(a[kind]) > 0 && a[kind][0] != 0 }
