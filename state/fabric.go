package state

// A Peer is an engine of the fabric as the engine that was asked sees it. The engine itself is one, the
// first.
type Peer struct {
	GUID string `json:"guid,omitempty"` // 16 hexadecimal digits, over RoCE as that engine says; "": not known
	Link string `json:"link,omitempty"` // by which it was asked; "": it is the engine itself
	Name string `json:"name,omitempty"` // of the other engine on that link: a node, or an address
	Up   bool   `json:"up"`             // packets can be exchanged
	Why  string `json:"why,omitempty"`  // if there is no summary: why, in words

	Summary *Summary `json:"summary,omitempty"` // what the other engine says of itself; nothing proves it
}

// A Summary is what an engine says of itself to the other engines of its fabric. Counts are sums since it
// began. An engine may say anything.
type Summary struct {
	Host    string `json:"host"` // name of its machine; up to MaxHost bytes
	PID     uint32 `json:"pid"`
	Time    uint64 `json:"time"`    // since the engine began, in ns: the moment at which this was read
	Threads uint16 `json:"threads"` // of the engine
	Stuck   bool   `json:"stuck"`   // one of these has not advanced for a while

	Clients  uint32 `json:"clients"`  // connections of programs
	Running  uint32 `json:"running"`  // programs that have these
	Queues   uint32 `json:"queues"`   // queue pairs
	Linked   uint32 `json:"linked"`   // of these, those whose peer is on another engine
	Waiting  uint32 `json:"waiting"`  // of these, those whose next WQE has to wait
	Faults   uint32 `json:"faults"`   // rules of faults that the engine obeys
	WQEs     uint64 `json:"wqes"`     // executed
	Bytes    uint64 `json:"bytes"`    // moved by these
	Failed   uint64 `json:"failed"`   // WQEs that ended with an error
	Explains uint64 `json:"explains"` // explanations

	PeersUp   uint32 `json:"peersUp"` // on its own links
	PeersDown uint32 `json:"peersDown"`
	Resent    uint64 `json:"resent"`   // packets that it has sent again
	Timeouts  uint64 `json:"timeouts"` // times that no answer came in time

	// Programs are up to MaxPrograms, those that failed most first, then those that moved most. Disclosed is
	// false if the engine does not tell them (nicless engine --disclose), or if the reader is neither root
	// nor the user of the engine that was asked.
	Disclosed bool      `json:"disclosed"`
	Programs  []Program `json:"programs,omitempty"`
}

// A Program is the clients of one process together.
type Program struct {
	Name    string `json:"name"` // up to 16 bytes
	PID     uint32 `json:"pid"`
	Queues  uint32 `json:"queues"`
	Linked  uint32 `json:"linked"`
	Waiting uint32 `json:"waiting"`
	WQEs    uint64 `json:"wqes"`
	Bytes   uint64 `json:"bytes"`
	Failed  uint64 `json:"failed"`
}

// Limits of a Summary: with them it needs at most eight management datagrams.
const (
	MaxHost     = 63 // bytes, as a label of DNS
	MaxPrograms = 21
)

// Since returns how fast an engine worked between two of its summaries. It is zero if the engine was
// started anew between them.
func (s *Summary) Since(old *Summary) (r Rate) {
	if old == nil || s.PID != old.PID || s.Time <= old.Time {
		return r
	}
	took := s.Time - old.Time
	return Rate{WQEs: perSecond(s.WQEs, old.WQEs, took), Bytes: perSecond(s.Bytes, old.Bytes, took),
		Failed: perSecond(s.Failed, old.Failed, took)}
}
