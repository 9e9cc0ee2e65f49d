//go:build linux && (amd64 || arm64)

package object

// A Stall says why the next WQE of a queue waits. It also counts and times the tries. A
// requester on a wire sends again each time the timer runs out. Without a wire the device
// sees at once when the reason is gone, and the timer only counts the tries.
type Stall struct {
	Kind     StallKind
	Left     uint8  // remaining tries
	Forever  bool   // tries are not counted
	Index    uint32 // if kind is BehindCQ: the producer index that cq must reach
	Since    uint64 // device clock when the wait began
	Interval uint64 // time between tries, in cycles
	Deadline uint64 // end of this try, on the device clock
	CQ       *CQ    // if kind is BehindCQ: the completion queue whose producer index must reach index
	Again    uint64 // device clock at which a peer in another shard is tried again
	SRQ      *SRQ   // if kind is notReady, on XRC: the XSRQ that has no receive
	At       int32  // index of the queue in client.sched.stalled
}

type StallKind uint8

const (
	NoStall  StallKind = iota
	NoPeer             // transport retry: the peer is absent, not ready, or connected to another QP
	NotReady           // RNR retry: the peer has no receive posted
	BehindCQ           // WAIT: a completion queue has not reached an index
)
