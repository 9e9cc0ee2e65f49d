package known

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/wqe"
)

// A Failure is what is known about one failure when its causes are listed. The zero value of a
// field means that it is not known.
type Failure struct {
	Syndrome  cqe.Syndrome
	Vendor    *uint8
	Requester bool        // a send WQE has failed
	Responder bool        // a receive has failed
	Opcode    *wqe.Opcode // of the send WQE
}

// Causes returns the probable causes of a failure, the most probable first. Those that this
// failure cannot have are left out: a receive that is too short, if a READ has failed. A cause
// with which the vendor byte was seen comes first.
func Causes(f Failure) (list []Cause) {
	about, _ := AboutSyndrome(f.Syndrome)
	is := f.when()
	for _, first := range [...]bool{true, false} {
		for _, c := range about.Causes {
			seen := f.Vendor != nil && c.when.vendor != 0 && c.when.vendor == *f.Vendor
			if seen == first && c.when.possible(is) {
				list = append(list, c)
			}
		}
	}
	if len(list) == 0 { // the words contradict each other, or a cause is missing here
		return about.Causes
	}
	return list
}

// A when says for which failures a cause is possible, and which vendor byte was seen with it.
type when struct {
	side   sides
	ops    ops
	vendor uint8 // 0: none
}

type sides uint8

const (
	requester sides = 1 << iota
	responder
	anySide = requester | responder
)

// ops are kinds of operations, as far as causes differ between them.
type ops uint8

const (
	opSend ops = 1 << iota
	opWrite
	opRead
	opAtomic
	opKey     // UMR, bind, invalidation
	opOther   // NOP, WAIT, SEND_EN, DMA
	opReceive // a receive, of any operation
	opAny     = opSend | opWrite | opRead | opAtomic | opKey | opOther | opReceive
)

var (
	always   = when{anySide, opAny, 0}
	requests = when{requester, opAny, 0}
	receives = when{responder, opAny, 0}
)

// when returns the sides and operations that the failure can have.
func (f *Failure) when() when {
	is := always
	switch {
	case f.Requester && !f.Responder:
		is.side, is.ops = requester, opAny&^opReceive
		if f.Opcode != nil {
			is.ops = kindOf(*f.Opcode)
		}
	case f.Responder && !f.Requester:
		is.side, is.ops = responder, opReceive
	}
	return is
}

func kindOf(o wqe.Opcode) ops {
	info := o.Info()
	switch {
	case !info.Known():
		return opAny &^ opReceive
	case info.Atomic():
		return opAtomic
	case info.Reads:
		return opRead
	case info.Keys:
		return opKey
	case info.Raddr:
		return opWrite
	case info.Receive() || info.Eth:
		return opSend
	}
	return opOther
}

func (w when) possible(is when) bool { return w.side&is.side != 0 && w.ops&is.ops != 0 }
