package state

// A Request says what is asked. The zero value asks for all objects.
type Request struct {
	// Kinds says of which kinds objects are asked for. If there are none, all are. The device and its threads
	// are always in an answer.
	Kinds []Kind `json:"kinds,omitempty"`

	PID   int    `json:"pid,omitempty"`   // only objects of the clients of this process
	Queue uint32 `json:"queue,omitempty"` // only this queue pair, its client, and its CQs and SRQ

	Ring *RingRequest `json:"ring,omitempty"` // a part of a ring, in place of all objects

	// Fabric asks, in place of all objects, for this engine and all others to which its links lead. The
	// engine asks these, and answers after some seconds at most.
	Fabric bool `json:"fabric,omitempty"`
}

// A Kind is a kind of objects.
type Kind string

// The kinds.
const (
	Clients Kind = "clients"
	Queues  Kind = "queues"
	CQs     Kind = "cqs"
	SRQs    Kind = "srqs"
)

// A RingRequest asks for entries of a ring.
type RingRequest struct {
	Queue uint32 `json:"queue"` // number of a queue pair or, if Of is CQRing, of a CQ
	Of    RingOf `json:"of"`
	First uint64 `json:"first,omitempty"` // number of the first entry, counted since RESET
	Last  bool   `json:"last,omitempty"`  // the entries around the consumer, in place of First
	Count int    `json:"count"`           // entries: 1 to MostEntries, and at most those of the ring
}

// MostRequest is the most bytes of a request, with the end of its line.
const MostRequest = 4096

// A Line of an answer has one object, End or Refused.
type Line struct {
	Device  *Device `json:"device,omitempty"`
	Thread  *Thread `json:"thread,omitempty"`
	Client  *Client `json:"client,omitempty"`
	Queue   *Queue  `json:"queue,omitempty"`
	CQ      *CQ     `json:"cq,omitempty"`
	SRQ     *SRQ    `json:"srq,omitempty"`
	Ring    *Ring   `json:"ring,omitempty"`
	Peer    *Peer   `json:"peer,omitempty"`    // if Fabric was asked
	End     bool    `json:"end,omitempty"`     // the last line of a whole answer
	Refused string  `json:"refused,omitempty"` // why there is no answer, or no more of it
}
