package model

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// LineSize is the number of bytes in a cache line.
const LineSize = 64

// An Agent is a party that reads and writes lines.
type Agent uint8

// The agents. Host and Peer are threads of the host: Host posts work requests and polls their
// completions; Peer posts the receives, and polls the payload that arrives or its completions. Dev
// is the device: a NIC, or the thread of an engine.
const (
	Host Agent = iota
	Peer
	Dev
	Agents // number of agents
)

// An Op is what an agent does to a line.
type Op uint8

// The operations. A StoreNT does not fetch the line first (MOVNTI, MOVDIR64B). An RMW is an atomic
// read-modify-write instruction. A Flush writes a dirty line back to its memory and drops it. Work is
// no access: the agent computes.
const (
	Load Op = iota
	Store
	StoreNT
	RMW
	Flush
	Work
)

// A Kind says what the line holds.
type Kind uint8

// The kinds. A record is a doorbell record of a send queue or a receive queue. CI is the doorbell
// record of a completion queue: its consumer index and its arm word.
const (
	Record Kind = iota
	UAR
	WQE
	RxWQE
	Payload
	CQE
	CI
	Key
)

// A Why says which part an access plays. It decides which request the device uses for it, and what
// may overlap it.
type Why uint8

// The reasons. Poll: the agent reads the line until it changes. Signal: the store that ends
// an agent's polling of a record or register. Once: one access, whose address the agent
// knows beforehand. Follow: one access whose address was in the line read before, so that it cannot
// begin earlier. Stream: a block of lines, the first of which is a Follow. Complete: the store of
// a completion, which must not be seen before the payload. Prefetch: a load before the line is
// needed, for which no agent waits.
const (
	Poll Why = iota
	Signal
	Once
	Follow
	Stream
	Complete
	Prefetch
)

// A Line names a cache line: an index in a region of a trace.
type Line struct {
	Region string
	Index  int
}

// String returns the line as traces have it, such as "sq:17".
func (l Line) String() string { return l.Region + ":" + strconv.Itoa(l.Index) }

// ParseLine is the reverse of Line.String.
func ParseLine(s string) (Line, error) {
	region, index, ok := strings.Cut(s, ":")
	n, err := strconv.Atoi(index)
	if !ok || region == "" || err != nil || n < 0 || n > maxIndex {
		return Line{}, fmt.Errorf("line %q is not a region, a colon and an index of 0..%d", s, maxIndex)
	}
	return Line{region, n}, nil
}

const (
	maxIndex = 1<<30 - 1 // the largest index of a line
	MaxLines = 1 << 24   // the longest block of lines: 1 GiB
)

// An Access is one access to one or more consecutive lines.
type Access struct {
	// Seq numbers the accesses of a trace. It increases. The order of Seq is an order in which the
	// lines were accessed.
	Seq int

	// After lists accesses that must be visible before this one begins, beyond the order of the
	// agent's own accesses.
	After []int

	Who  Agent
	Op   Op
	Kind Kind
	Why  Why

	Line  Line // the first line
	N     int  // the number of lines, at least 1
	Bytes int  // the bytes that are wanted of these lines; for reports only

	// Req is the number of the work request to which the access belongs. It does not decrease.
	Req int
}

// The names of agents, operations, kinds and reasons, as in traces and reports.
var (
	agentNames = []string{"host", "peer", "dev"}
	opNames    = []string{"load", "store", "store-nt", "rmw", "flush", "work"}
	kindNames  = []string{"record", "uar", "wqe", "rxwqe", "payload", "cqe", "ci", "key"}
	whyNames   = []string{"poll", "signal", "once", "follow", "stream", "complete", "prefetch"}
)

func (a Agent) String() string { return agentNames[a] }
func (o Op) String() string    { return opNames[o] }
func (k Kind) String() string  { return kindNames[k] }
func (w Why) String() string   { return whyNames[w] }

// OpNames returns the names of all operations, as in traces and reports.
func OpNames() []string { return slices.Clone(opNames) }

// KindNames returns the names of all kinds.
func KindNames() []string { return slices.Clone(kindNames) }

// WhyNames returns the names of all reasons.
func WhyNames() []string { return slices.Clone(whyNames) }

// Known reports whether agent, operation, kind and reason of the access exist.
func (a Access) Known() bool {
	return a.Who < Agents && int(a.Op) < len(opNames) && int(a.Kind) < len(kindNames) &&
		int(a.Why) < len(whyNames)
}

// String returns the access in one line, such as "812 host store wqe sq:17 once".
func (a Access) String() string {
	s := fmt.Sprintf("%d %v %v %v %v %v", a.Seq, a.Who, a.Op, a.Kind, a.Line, a.Why)
	if a.N > 1 {
		s += fmt.Sprintf(" x%d", a.N)
	}
	return s
}

// A Structure is what a region is part of. Placements are given by structure.
type Structure uint8

// The structures. TxPayload is what the device reads, RxPayload what it writes. Keys are the
// device's tables of memory keys.
const (
	SQ Structure = iota
	RQ
	CQ
	Records
	UARs
	TxPayload
	RxPayload
	Keys
	Structures // number of structures
)

var structureNames = []string{"sq", "rq", "cq", "dbrec", "uar", "payload.tx", "payload.rx", "keys"}

func (s Structure) String() string { return structureNames[s] }

// StructureNames returns the names of all structures.
func StructureNames() []string { return slices.Clone(structureNames) }

// A Trace is a list of accesses, and the regions that they name.
type Trace struct {
	Regions  map[string]Structure
	Accesses []Access
}
