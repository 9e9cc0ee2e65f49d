package fault

import (
	"fmt"
	"time"
)

// Limits of rules. A rule costs some nanoseconds for each WQE of each queue that it has to do with.
const (
	MostRules = 256
	MostName  = 63 // bytes
	MostText  = 64 << 10
)

// MostDelay is the longest delay of a packet. All users share the room for packets that wait, so none may
// keep it for long, and no network still brings a packet after a minute. Forever means lost.
const MostDelay = Duration(time.Minute)

// Rules are rules that are set together. Its JSON form is what files and the control protocol have.
type Rules struct {
	Seed  Number `json:"seed,omitempty"` // every draw depends on it alone
	Rules []Rule `json:"rules"`
}

// A Rule says on which events the device does what. It has exactly one action: one of the fields after Match.
type Rule struct {
	number int // place in its Set, from 1; 0: in none

	Name  string `json:"name,omitempty"`
	Match Match  `json:"match,omitzero"`

	Complete    *Complete `json:"complete,omitempty"`     // WQE: fails with this syndrome, and is not executed
	Stall       Duration  `json:"stall,omitempty"`        // WQE: does not begin before that time is over
	Doorbell    Doorbell  `json:"doorbell,omitzero"`      // doorbell: is not seen, or late
	RNR         int       `json:"rnr,omitempty"`          // WQE: the responder is not ready, so often
	LoseRequest Count     `json:"lose-request,omitempty"` // WQE: the request is lost, so often
	LoseAnswer  Count     `json:"lose-answer,omitempty"`  // WQE: the answer is lost, so often
	Flip        *Flip     `json:"flip,omitempty"`         // WQE: a bit of the payload is wrong
	Overrun     Side      `json:"overrun,omitempty"`      // WQE: a completion queue overruns
	Unreadable  Side      `json:"unreadable,omitempty"`   // WQE: the ring of a queue cannot be read
	Deregister  Side      `json:"deregister,omitempty"`   // WQE: a key goes when some bytes have been moved
	Disconnect  bool      `json:"disconnect,omitempty"`   // WQE: the peer goes to error first
	Kill        bool      `json:"kill,omitempty"`         // WQE: the client dies
	Refuse      *Refuse   `json:"refuse,omitempty"`       // call: is refused
	Packet      *Packet   `json:"packet,omitempty"`       // packet of a link
	Cut         Duration  `json:"cut,omitempty"`          // packet of a link: it and all later are lost
	MTU         int       `json:"mtu,omitempty"`          // packet of a link: lost if its payload is longer
	Port        *Port     `json:"port,omitempty"`         // time: the port goes down
	GID         GID       `json:"gid,omitempty"`          // time: the port's GID changes
	Subnet      Subnet    `json:"subnet,omitempty"`       // time: the subnet manager has done this to the port
	Order       Order     `json:"order,omitempty"`        // queue: bytes become visible in another order
}

// A Match says which events a rule is about: those that all its fields fit. Zero fields fit everything.
type Match struct {
	// Fixed for a queue, client or link.
	Program   string    `json:"program,omitempty"` // of the client's process, at most 15 bytes
	PID       int       `json:"pid,omitempty"`
	Client    uint32    `json:"client,omitempty"` // number of the client, as in explanations and traces
	Device    string    `json:"device,omitempty"`
	QP        Number    `json:"qp,omitempty"` // number of the queue pair
	Transport Transport `json:"transport,omitempty"`

	// Of a WQE or a packet.
	Opcode Opcodes `json:"opcode,omitempty"` // of a WQE; packets have that of the work request they are of
	Size   Range   `json:"size,omitzero"`    // bytes of the message, or of the packet's payload
	Key    Number  `json:"key,omitempty"`    // a key that the WQE names
	Index  *uint16 `json:"index,omitempty"`  // of the WQE

	// How often, counted for each queue, client or link alone, after all fields above.
	Nth         uint64  `json:"nth,omitempty"`         // only this one; the first is 1
	Every       uint64  `json:"every,omitempty"`       // each one whose number can be divided by this
	Probability float64 `json:"probability,omitempty"` // 0 to 1, drawn by seed; 0: always
	Times       uint64  `json:"times,omitempty"`       // at most so often

	// Time since the rules were set.
	After Duration `json:"after,omitempty"`
	Until Duration `json:"until,omitempty"`
}

// String names a rule: by its name, or by its place in its Set, and by its action.
func (r *Rule) String() string {
	switch {
	case r.Name != "":
		return fmt.Sprintf("%q (%s)", r.Name, r.Action())
	case r.number != 0:
		return fmt.Sprintf("%d (%s)", r.number, r.Action())
	}
	return r.Action()
}
