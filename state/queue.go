package state

// A Queue is a queue pair. Its queues are counted in blocks (of the send queue, 64 bytes each) and entries
// (of the receive queue).
type Queue struct {
	Number    uint32 `json:"number"`
	Client    uint32 `json:"client"`
	Time      uint64 `json:"time"`      // device clock in ns: the moment at which this was read
	Transport string `json:"transport"` // RC, UC, UD, RAW, XRC-INI, XRC-TGT, DCI or DCT
	State     string `json:"state"`     // RST, INIT, RTR, RTS, SQD, SQE or ERR
	Peer      uint32 `json:"peer"`      // queue pair at the other end; 0: none, or not of one peer
	Linked    bool   `json:"linked"`    // the peer is on another device
	Port      uint32 `json:"port"`      // number of the link to it

	SendCQ    uint32 `json:"send_cq"`
	RecvCQ    uint32 `json:"recv_cq"`
	SRQ       uint32 `json:"srq,omitempty"`
	SendSize  uint32 `json:"send_size"` // blocks; 0: it has no send queue
	Announced uint32 `json:"announced"` // blocks that doorbells have announced and that are not executed yet
	Done      uint64 `json:"done"`      // blocks executed since RESET
	WQEs      uint64 `json:"wqes"`      // executed since it was made; flushed ones do not count
	Bytes     uint64 `json:"bytes"`     // of payload, moved by these WQEs
	RecvSize  uint32 `json:"recv_size"` // entries; 0: it has no receive queue of its own
	Posted    uint32 `json:"posted"`    // receives that wait for messages
	Consumed  uint64 `json:"consumed"`  // receives consumed since RESET

	Wait     string `json:"wait,omitempty"`      // why the next WQE has to wait, in words
	WaitTime uint64 `json:"wait_time,omitempty"` // for how long it has waited, in ns
	Failed   bool   `json:"failed,omitempty"`    // a WQE has failed since RESET
}

// A CQ is a completion queue.
type CQ struct {
	Number    uint32 `json:"number"`
	Client    uint32 `json:"client"`
	Size      uint32 `json:"size"`      // entries
	EntrySize uint32 `json:"entry"`     // bytes of an entry: 64 or 128
	Unpolled  uint32 `json:"unpolled"`  // completions that the program has not taken
	Written   uint64 `json:"written"`   // completions since it was made
	Queues    int    `json:"queues"`    // queue pairs that use it
	Overrun   bool   `json:"overrun"`   // it was full when a completion came; it takes none any more
	Armed     bool   `json:"armed"`     // the program waits for an event
	Collapsed bool   `json:"collapsed"` // it has one entry, which is overwritten
}

// An SRQ is a shared receive queue.
type SRQ struct {
	Number   uint32 `json:"number"`
	Client   uint32 `json:"client"`
	Size     uint32 `json:"size"`     // entries
	Posted   uint32 `json:"posted"`   // receives that wait for messages
	Consumed uint64 `json:"consumed"` // since it was made
	Limit    uint32 `json:"limit"`    // an event is due when fewer are posted; 0: no event
	Queues   int    `json:"queues"`   // queue pairs that use it
}

// A Ring is a part of the ring of a queue: the bytes that the engine sees there.
type Ring struct {
	Queue uint32 `json:"queue"`
	Of    RingOf `json:"of"`
	Size  uint32 `json:"size"`  // entries of the ring
	Entry uint32 `json:"entry"` // bytes of an entry
	First uint64 `json:"first"` // number of the first entry below, counted since RESET

	// Entries before Consumer are done, those from Consumer to Producer wait, and others are free. Of a CQ,
	// the engine is the producer, and the program the consumer.
	Producer uint64 `json:"producer"`
	Consumer uint64 `json:"consumer"`

	Bytes []byte `json:"bytes"` // of the entries from First on
}

// A RingOf says which ring of a queue is meant.
type RingOf string

// The rings. Receives of an SRQ are a list in its entries, in no order, so it has no producer.
const (
	SendRing    RingOf = "send"
	ReceiveRing RingOf = "receive"
	CQRing      RingOf = "cq"
)

// MostEntries is the most entries of a Ring.
const MostEntries = 256
