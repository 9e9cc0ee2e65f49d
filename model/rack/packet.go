package rack

import "fmt"

// MaxHead is the most bytes of headers of a packet. A WRITE that is one packet has 28.
const MaxHead = 48

// Traffic is packets from one node to another.
type Traffic struct {
	Head    int     // bytes of headers of each packet
	Payload int     // bytes of payload of each packet
	Batch   float64 // packets that the receiver finds at a look, and gives back together: at least 1
}

// Check returns an error if a ring of the rack cannot carry such packets.
func (t *Traffic) Check(r *Rack) error {
	switch {
	case t.Head < 0 || t.Head > MaxHead:
		return fmt.Errorf("rack: headers of %d bytes; 0 to %d are possible", t.Head, MaxHead)
	case t.Payload < 0 || t.Head+t.Payload > inline && t.Payload > r.Data/2:
		return fmt.Errorf("rack: payload of %d bytes; 0 to %d are possible", t.Payload, max(r.Data/2, inline-t.Head))
	case !(t.Batch >= 1 && t.Batch <= float64(r.Slots)):
		return fmt.Errorf("rack: %g packets at a look; 1 to %d are possible", t.Batch, r.Slots)
	}
	return nil
}

// Packet returns what a packet costs its sender and its receiver together. The receiver's looks that find
// nothing are counted by Rack.Idle.
func (r *Rack) Packet(t Traffic) Lines {
	sent, received := r.sent(t), r.received(t)
	return sent.plus(received)
}

// sent returns what a packet costs its sender: it writes the payload, the slot's second line if that is used,
// and the first line, and reads the receiver's count once for each lap of the slots or of the data area.
func (r *Rack) sent(t Traffic) Lines {
	l := Lines{Read: 1 / float64(r.Slots), Write: 1}
	used := slotHead + t.Head
	if t.outside() {
		l.Write += lines(t.Payload)
		l.Read = max(l.Read, lines(t.Payload)*line/float64(r.Data))
	} else {
		used += t.Payload
	}
	if used > line {
		l.Write++
	}
	return l
}

// received returns what a packet costs its receiver: it reads the slot and the payload, and writes its count
// once for each batch.
func (r *Rack) received(t Traffic) Lines {
	l := Lines{Read: 1, Write: 1 / t.Batch}
	switch {
	case t.outside():
		l.Read += lines(t.Payload)
	case slotHead+t.Head+t.Payload > line:
		l.Read++
	}
	return l
}

// outside reports whether the payload is not in the slot.
func (t *Traffic) outside() bool { return t.Head+t.Payload > inline }

// Chain returns how a packet keeps the cores of its sender and its receiver together: lines that are read or
// written one after another, and further lines that overlap with these.
func (r *Rack) Chain(t Traffic) (one, more Lines) {
	all := r.Packet(t)
	if !t.outside() {
		return all, Lines{}
	}
	more = Lines{Read: lines(t.Payload) - 1, Write: lines(t.Payload) - 1}
	return Lines{all.Read - more.Read, all.Write - more.Write}, more
}
