package fault

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/nicless/nicless/internal/nearest"
)

// An Event is a kind of events that rules act on.
type Event uint8

// Events.
const (
	OnNothing  Event = iota
	OnWQE            // a WQE is about to be executed
	OnDoorbell       // a send record has a new value
	OnCall           // a client requests something
	OnPacket         // a packet goes to a link
	OnTime           // the time Match.After is over
	OnQueue          // a queue is made, or the rules are set; the action lasts as long as both
)

// Complete says how a WQE fails.
type Complete struct {
	Syndrome Syndrome `json:"syndrome"`
	Vendor   *Number  `json:"vendor,omitempty"` // byte 54 of the CQE; nil: as the device has it for the syndrome
}

// A Doorbell says what happens to a doorbell: it is dropped, or seen late.
type Doorbell struct {
	Drop  bool
	Delay Duration
}

// Flip says which bit of the payload is wrong. Fields that are nil are drawn.
type Flip struct {
	Byte *Number `json:"byte,omitempty"` // place in the message; beyond its end: the last byte
	Bit  *uint8  `json:"bit,omitempty"`  // 0 to 7
}

// A Side says which end of a request is meant.
type Side string

// Sides. A completion queue is that of the Send or of the Receive, a key is Local or Remote.
const (
	Send    Side = "send"
	Receive Side = "receive"
	Local   Side = "local"
	Remote  Side = "remote"
)

// Refuse says which call of a client is refused, and with which errno.
type Refuse struct {
	Call  string `json:"call"`  // name of the request, as in docs/CONTROL.md: create_qp
	Errno string `json:"errno"` // ENOMEM
}

// A Packet says what happens to a packet of a link. Exactly one field is set.
type Packet struct {
	Do    PacketAction `json:"do,omitempty"`
	Delay Duration     `json:"delay,omitempty"`
}

// A PacketAction is what happens to a packet, besides delay.
type PacketAction string

// Actions on packets.
const (
	Lose      PacketAction = "lose"
	Duplicate PacketAction = "duplicate"
	Corrupt   PacketAction = "corrupt" // one bit, drawn, is wrong; links with a checksum drop the packet
	Reorder   PacketAction = "reorder" // the packet goes after the next one
)

// A Port says for how long the port is down.
type Port struct {
	Down Duration `json:"down"`
}

// A GID says what happens to the port's GID.
type GID string

// ChangeGID gives the port another GID.
const ChangeGID GID = "change"

// A Subnet is what the subnet manager has done to a port. The port stays as it is, because the values that it
// has are those that it had; programs get the event and ask for the values again.
type Subnet string

// Things that a subnet manager does.
const (
	ChangeLID  Subnet = "lid-change"  // it has given the port a LID
	ChangePKey Subnet = "pkey-change" // it has written the table of P_Keys
	ChangeSM   Subnet = "sm-change"   // another subnet manager is the master; mlx5 never tells
	Reregister Subnet = "reregister"  // it asks for the subscriptions and groups of clients again
)

// An Order says in which order bytes may become visible before their completion.
type Order string

// Orders.
const (
	Weak    Order = "weak"    // any that access flags and options of queue pairs allow
	Weakest Order = "weakest" // any that the specification allows
)

// kinds has all actions: their fields' names, the events they act on, and whether a rule has them.
var kinds = []struct {
	name string
	on   Event
	has  func(r *Rule) bool
	text func(r *Rule) string // its words
}{
	{"complete", OnWQE, func(r *Rule) bool { return r.Complete != nil }, func(r *Rule) string {
		s := "completes with " + r.Complete.Syndrome.String()
		if v := r.Complete.Vendor; v != nil {
			s += fmt.Sprintf(", vendor %#02x", uint64(*v))
		}
		return s
	}},
	{"stall", OnWQE, func(r *Rule) bool { return r.Stall != 0 },
		func(r *Rule) string { return "waits " + span(r.Stall) }},
	{"doorbell", OnDoorbell, func(r *Rule) bool { return r.Doorbell != Doorbell{} }, func(r *Rule) string {
		if r.Doorbell.Drop {
			return "the doorbell is dropped"
		}
		return "the doorbell is seen after " + r.Doorbell.Delay.String()
	}},
	{"rnr", OnWQE, func(r *Rule) bool { return r.RNR != 0 },
		func(r *Rule) string { return "receiver not ready, " + times(Count(r.RNR)) }},
	{"lose-request", OnWQE, func(r *Rule) bool { return r.LoseRequest != 0 },
		func(r *Rule) string { return "the request is lost, " + times(r.LoseRequest) }},
	{"lose-answer", OnWQE, func(r *Rule) bool { return r.LoseAnswer != 0 },
		func(r *Rule) string { return "the answer is lost, " + times(r.LoseAnswer) }},
	{"flip", OnWQE, func(r *Rule) bool { return r.Flip != nil },
		func(*Rule) string { return "a bit of the payload is flipped" }},
	{"overrun", OnWQE, func(r *Rule) bool { return r.Overrun != "" },
		func(r *Rule) string { return fmt.Sprintf("the %s CQ overruns", r.Overrun) }},
	{"unreadable", OnWQE, func(r *Rule) bool { return r.Unreadable != "" },
		func(r *Rule) string { return fmt.Sprintf("the %s ring cannot be read", r.Unreadable) }},
	{"deregister", OnWQE, func(r *Rule) bool { return r.Deregister != "" },
		func(r *Rule) string { return fmt.Sprintf("the %s key is deregistered", r.Deregister) }},
	{"disconnect", OnWQE, func(r *Rule) bool { return r.Disconnect },
		func(*Rule) string { return "the peer goes to error" }},
	{"kill", OnWQE, func(r *Rule) bool { return r.Kill }, func(*Rule) string { return "the client dies" }},
	{"refuse", OnCall, func(r *Rule) bool { return r.Refuse != nil },
		func(r *Rule) string { return r.Refuse.Call + " is refused with " + r.Refuse.Errno }},
	{"packet", OnPacket, func(r *Rule) bool { return r.Packet != nil }, func(r *Rule) string {
		if r.Packet.Delay != 0 {
			return "packet: delay " + r.Packet.Delay.String()
		}
		return "packet: " + string(r.Packet.Do)
	}},
	{"cut", OnPacket, func(r *Rule) bool { return r.Cut != 0 },
		func(r *Rule) string { return "the link is cut " + span(r.Cut) }},
	{"mtu", OnPacket, func(r *Rule) bool { return r.MTU != 0 },
		func(r *Rule) string { return fmt.Sprintf("packets with more than %d bytes are lost", r.MTU) }},
	{"port", OnTime, func(r *Rule) bool { return r.Port != nil },
		func(r *Rule) string { return "the port is down " + span(r.Port.Down) }},
	{"gid", OnTime, func(r *Rule) bool { return r.GID != "" },
		func(*Rule) string { return "the port's GID changes" }},
	{"subnet", OnTime, func(r *Rule) bool { return r.Subnet != "" },
		func(r *Rule) string { return "the subnet manager: " + string(r.Subnet) }},
	{"order", OnQueue, func(r *Rule) bool { return r.Order != "" },
		func(r *Rule) string { return "order of bytes: " + string(r.Order) }},
}

// times says how often, in words.
func times(n Count) string {
	switch n {
	case All:
		return "each time"
	case 1:
		return "once"
	}
	return fmt.Sprintf("%d times", int(n))
}

// span says how long, in words.
func span(d Duration) string {
	if d == Forever {
		return "for ever"
	}
	return "for " + d.String()
}

// Actions returns the names of all actions, as in files.
func Actions() (names []string) {
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return names
}

// On returns the events that the rule acts on; OnNothing if it has no action.
func (r *Rule) On() Event {
	for _, k := range kinds {
		if k.has(r) {
			return k.on
		}
	}
	return OnNothing
}

// Kind returns the name of the rule's action, as in files; "" if it has none.
func (r *Rule) Kind() string {
	for _, k := range kinds {
		if k.has(r) {
			return k.name
		}
	}
	return ""
}

// Action says in words what the rule does.
func (r *Rule) Action() string {
	for _, k := range kinds {
		if k.has(r) {
			return k.text(r)
		}
	}
	return "does nothing"
}

// UnmarshalText takes "drop", or a time.
func (d *Doorbell) UnmarshalText(b []byte) error {
	if string(b) == "drop" {
		*d = Doorbell{Drop: true}
		return nil
	}
	var v Doorbell
	if err := v.Delay.UnmarshalText(b); err != nil {
		return fmt.Errorf("%q is neither drop nor a time such as 5ms%s", b, nearest.Hint(string(b), []string{"drop"}))
	}
	*d = v
	return nil
}

// MarshalText is the inverse of UnmarshalText.
func (d Doorbell) MarshalText() ([]byte, error) {
	if d.Drop {
		return []byte("drop"), nil
	}
	return d.Delay.MarshalText()
}

// oneOf returns an error if a word is not one of a list.
func oneOf[T ~string](field string, word T, list ...T) error {
	if word == "" || slices.Contains(list, word) {
		return nil
	}
	var names []string
	for _, w := range list {
		names = append(names, string(w))
	}
	hint := nearest.Hint(string(word), names)
	return fmt.Errorf("%s: %q is none of %s%s", field, word, strings.Join(names, ", "), hint)
}

// UnmarshalJSON takes the name of an action, or {"delay": time}.
func (p *Packet) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		s, err := text(b)
		*p = Packet{Do: PacketAction(s)}
		return err
	}
	type plain Packet
	return json.Unmarshal(b, (*plain)(p))
}
