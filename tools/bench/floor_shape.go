//go:build linux && (amd64 || arm64)

package bench

// A shape says which lines a floor exchanges, apart from a doorbell, the descriptor of each payload
// and its completion, and in which order the device can have them. The zero shape has payloads at
// places that the device knows before it has the descriptor.
type shape struct {
	// inline puts the payload into the descriptor, which is then as long as a WQE with that
	// payload.
	inline bool

	// named has payloads whose places only the descriptor says. So the line of the payload comes
	// after the line of the descriptor, as the line that a READ reads comes after the WQE.
	named bool

	// receives adds what a SEND has more than a WRITE: a descriptor of 16 bytes for each receive,
	// four of which share a line, posted by the same poster; it says where the payload goes, and the
	// sender's descriptor where it comes from. Each receive has a completion of its own.
	receives bool

	// polled has descriptors that the device polls, in two lines in turn, as in the two halves of
	// a BlueFlame register. There is no doorbell.
	polled bool
}

// inlineHead is how many bytes of a WQE precede a payload inside it: a control segment, a remote address,
// and the length of the payload. In a floor the payload begins at 32, so that words do not straddle.
const inlineHead = 16 + 16 + 4

// inlineAt is where the payload begins in the descriptor of a floor. A payload of at most polledMost bytes
// ends before the last eight bytes of the line, which the device polls if the shape is polled.
const (
	inlineAt   = 32
	polledMost = 64 - 8 - inlineAt
)

// descriptor returns the length of a descriptor in bytes, whole lines.
func (s shape) descriptor(size int) int {
	if s.inline {
		return roundUp(inlineHead+size, 64)
	}
	return 64
}

// wqe returns the part of a floor's name that stands for the descriptor.
func (s shape) wqe() string {
	if s.inline {
		return "inline_wqe"
	}
	return "wqe"
}

// steps returns the part of a floor's name from the lines that the device fetches for a descriptor to the
// completions.
func (s shape) steps() (name string) {
	if s.receives {
		name += "rwqe_"
	}
	if s.named {
		name += "sge_"
	}
	name += "memcpy_"
	if s.receives {
		name += "rcqe_"
	}
	return name + "cqe"
}

// trip returns the name of the floor of latency. The same floors in C have the same names.
func (s shape) trip() string {
	if s.polled {
		return "pp_poll_" + s.wqe() + "_" + s.steps() + "_rtt"
	}
	return "pp_" + s.wqe() + "_doorbell_" + s.steps() + "_rtt"
}
