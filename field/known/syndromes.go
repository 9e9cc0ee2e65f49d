package known

import "github.com/nicless/nicless/cqe"

// Sure says where a statement comes from, the surest first.
type Sure uint8

// The kinds of sources.
const (
	Documented Sure = iota // in a driver, a header or the InfiniBand specification
	Observed               // seen on hardware, in a public report
	Inferred               // follows from the others; no report is known
)

// String returns one word.
func (s Sure) String() string {
	switch s {
	case Documented:
		return "documented"
	case Observed:
		return "observed"
	case Inferred:
		return "inferred"
	}
	return "unknown"
}

// Text returns the source in words, for people.
func (s Sure) Text() string {
	switch s {
	case Documented:
		return "in drivers, headers or the InfiniBand specification"
	case Observed:
		return "seen on hardware, in public reports"
	case Inferred:
		return "follows from the documents; no report is known"
	}
	return "unknown"
}

// A Syndrome is what is known about one syndrome of error CQEs (byte 55).
type Syndrome struct {
	Value  cqe.Syndrome
	Means  string  // one sentence
	Look   string  // where to look next, one sentence
	Causes []Cause // the most probable first
}

// A Cause is one way to get a syndrome. Its order among the others is a judgement of this
// project from public reports, and no measured frequency.
type Cause struct {
	Text string // a phrase
	Code string // the explanation of this project's device for it; empty: it has none
	Sure Sure

	when when
}

var syndromes = []Syndrome{
	{cqe.LocalLength,
		"A message is longer than this side allows.",
		"On a receive (responder), compare the message with the receive's list. On a send, compare it with the MTU of the port and the limit of the QP.", localLength},
	{cqe.LocalQPOp,
		"The device cannot execute this WQE as it is written, or the queue is not as the WQE needs it.",
		"Decode the WQE at wqe_counter: nicless decode names a wrong ds, an unknown opcode and a bad segment.", localQPOp},
	{cqe.LocalProtection,
		"A local key (lkey) of this WQE does not give the access that the work needs.",
		"Compare each data segment of the WQE with the registration of its lkey: protection domain, range, local_write.", localProtection},
	{cqe.Flush,
		"This work request was not executed: its queue pair was already in the error state.",
		"This is a consequence. Find the first CQE of the queue pair with another syndrome, or what moved the queue pair to the error state.", flush},
	{cqe.MWBind,
		"A UMR, a bind of a memory window or an invalidation asks for a change that cannot be made.",
		"Decode the UMR WQE at wqe_counter, and compare it with the Mkey that it changes.", bindError},
	{cqe.BadResponse,
		"The answer of a READ or an atomic does not fit the request.",
		"Compare path MTU and PSNs of both sides, and capture the packets.", badResponse},
	{cqe.LocalAccess,
		"A local access of the responder's own memory failed.",
		"Compare the keys of this side with their registrations.", localAccess},
	{cqe.RemoteInvalidRequest,
		"The responder has refused the request as invalid (NAK invalid request).",
		"Look at the responder: its receive may be too short, its queue pair may not allow the operation.", remoteInvalid},
	{cqe.RemoteAccess,
		"The responder has refused the access: its key (rkey), address, length or rights do not allow it (NAK remote access error).",
		"Compare rkey, raddr and length of the WQE with the registration at the responder, which may have an asynchronous event of its own.", remoteAccess},
	{cqe.RemoteOperation,
		"The responder could not complete the operation for a reason of its own (NAK remote operational error).",
		"The responder has a CQE with the real reason, mostly 0x04 on a receive.", remoteOperation},
	{cqe.TransportRetry,
		"The peer did not answer within retry_cnt tries, each as long as the local ACK timeout.",
		"Nothing is known about the peer: find out whether it lives, is connected, and whether packets reach it.", transportRetry},
	{cqe.RNRRetry,
		"The peer has answered that it has no receive posted, rnr_retry times.",
		"Look at the receives of the peer: how many are posted, and when.", rnrRetry},
	{cqe.RemoteAborted,
		"The remote side, or a page fault there, has aborted the operation.",
		"With on-demand paging (vendor byte 0x93) libmlx5 posts the receive again by itself.", remoteAborted},
}

// general is the row of the status that has no syndrome of its own. Its value is 0.
var general = Syndrome{
	Means: "The device has reported a syndrome for which verbs has no status of its own.",
	Look:  "Find the syndrome: the CQE, or the line that the library has printed about it.",
}

// Syndromes returns all syndromes that are documented, in ascending order. The caller must not
// change what the entries refer to.
func Syndromes() []Syndrome { return append([]Syndrome(nil), syndromes...) }

// AboutSyndrome returns what is known about a syndrome. For a value that no header names, ok
// is false, and the row says so.
func AboutSyndrome(s cqe.Syndrome) (about Syndrome, ok bool) {
	for _, row := range syndromes {
		if row.Value == s {
			return row, true
		}
	}
	return Syndrome{Value: s,
		Means: "No public header names this syndrome; verbs reports a general error.",
		Look:  "If the value comes from a dump, check that its bytes are those of an error CQE in the right order.",
	}, false
}

// OfStatus returns the syndrome that verbs reports as this status (enum ibv_wc_status), and
// whether there is one. Statuses that no mlx5 CQE leads to have none.
func OfStatus(s cqe.WCStatus) (cqe.Syndrome, bool) {
	for _, row := range syndromes {
		if row.Value.Status() == s {
			return row.Value, true
		}
	}
	return 0, false
}
