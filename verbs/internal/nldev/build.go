//go:build linux && (amd64 || arm64)

package nldev

import "github.com/vishvananda/netlink/nl"

// A List is attributes, of an answer or of an attribute that contains others.
type List []*nl.RtAttr

func (l *List) add(kind int, value []byte) { *l = append(*l, nl.NewRtAttr(kind, value)) }

func (l *List) u8(kind int, v uint8)   { l.add(kind, []byte{v}) }
func (l *List) u32(kind int, v uint32) { l.add(kind, ne.AppendUint32(nil, v)) }
func (l *List) u64(kind int, v uint64) { l.add(kind, ne.AppendUint64(nil, v)) }

func (l *List) text(kind int, s string) { l.add(kind, append([]byte(s), 0)) }

// nest adds an attribute that contains others.
func (l *List) nest(kind int, inner List) {
	a := nl.NewRtAttr(kind, nil)
	for _, child := range inner {
		a.AddChild(child)
	}
	*l = append(*l, a)
}

// flagged adds an attribute that contains others, and says so. The kernel's older tables do not.
func (l *List) flagged(kind int, inner List) { l.nest(kind|flagNested, inner) }

func (l List) size() (n int) {
	for _, a := range l {
		n += align(a.Len())
	}
	return n
}

func (l List) appendTo(dst []byte) []byte {
	for _, a := range l {
		dst = append(dst, a.Serialize()...)
	}
	return dst
}
