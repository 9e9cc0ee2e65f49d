package trace

import (
	"encoding/binary"
	"fmt"
)

// Version is the version of the formats of this package. A change that older readers would misread
// gets the next number.
const Version = 1

// Minor is the minor version of the formats of this package. Readers read all minor versions.
const Minor = 4

// GoneWithClient is the Value of an event of kind KindQueueGone.
const GoneWithClient = 1

// A Kind says what an event means, and with it what the fields of the event are. Readers pass over
// kinds that they do not know: later minor versions may add kinds.
type Kind uint8

const (
	// KindSkip fills the end of a ring. Readers never return it.
	KindSkip Kind = iota

	// KindClient says that a client exists: when a watch begins, and when the client comes. Queue is the
	// client's number in this watch, Value its process id (0: unknown), and Data its name, as the engine's
	// log shows it.
	KindClient

	// KindClientGone says that the client Queue has gone.
	KindClientGone

	// KindQueue says that a queue pair exists, when a watch begins, when the queue pair is made, and when it
	// is connected. Queue is its number, Index the state, Count the transport (the values of the IB
	// specification's verbs: see QueueInfo), Value the number of its client, and Data a QueueInfo.
	KindQueue

	// KindQueueGone says that the queue pair Queue has been destroyed. Value is GoneWithClient if the device
	// has destroyed it because its client has gone, and 0 if the client has, or if the trace is older.
	KindQueueGone

	// KindState says that the queue pair Queue has changed its state. Index is the index of the next WQE, and
	// Count is from<<8 | to; see State.
	KindState

	// KindDoorbell says that the device has found new blocks announced for the queue pair Queue. Index is the
	// index of the first, Count their number, and Value the record's value.
	KindDoorbell

	// KindFetch says that the device has copied blocks of the send queue of the queue pair Queue. Index is
	// the index of the first block, Count their number, Data the blocks, 64 bytes each. The device executes
	// this copy, unless the peer is on another device. Blocks that are not executed in this visit are fetched
	// again in a later one.
	KindFetch

	// KindExecute says that the device has executed WQEs of the queue pair Queue, whose peer is on this
	// device. Index is the index of the first block, Count the number of blocks, and Value the number of
	// payload bytes that were moved.
	KindExecute

	// KindWait says that the WQE Index of the queue pair Queue cannot go on yet. Value says why; see
	// WaitReason.
	KindWait

	// KindSlice says that a part of the bytes of the WQE Index of the queue pair Queue has been moved. Value
	// is the number of bytes moved so far.
	KindSlice

	// KindFail says that the WQE Index of the queue pair Queue has failed. Count is its number of blocks, and
	// Value the syndrome.
	KindFail

	// KindCQE says that the device writes completions, Count of them, into consecutive entries. Queue is the
	// number of the completion queue, Value the producer index of the first, Index the lower 16 bits of
	// Value, and Data the first CQE, 64 bytes. The others differ from it only in wqe_counter, which grows by
	// one; see CompletionAt. Completions of a compressed session are recorded as if each were written alone.
	KindCQE

	// KindSent says that the device has given a packet to a link. Queue is the number of the queue pair that
	// sends it, Index the number of the port, and Value the length of the packet, from its BTH to the end of
	// its payload. Count is how many of these bytes are headers. Data are the headers, and the payload or the
	// first bytes of it.
	KindSent

	// KindReceived says that the device has taken a packet from a link. Queue is the number of the queue pair
	// that it is for; all other fields are as in KindSent.
	KindReceived

	// KindExplanation says in words what is wrong. Queue and Index name the entry; Count is its kind: 0 a
	// WQE, 1 a receive, 2 a completion. Queue is 0 if it is about a request of a client. Value is the number
	// of the client (0 in older traces). Data are the code, CodeSize bytes padded with 0, and the text.
	KindExplanation

	// KindKey says that a memory key was made or has changed. Queue is the key, Count the access rights (bits
	// of ibv_access_flags), Index KeyMade, KeyChanged or KeyGone, and Data a KeyInfo.
	KindKey

	// KindLink says whether a link is up: when a watch begins, and when it has come up or gone down. Queue is
	// the number of the port, Value 1 up, 0 down, Data its name. Watches of single programs have no links.
	KindLink

	// KindLost says that events are missing here, because the watcher was too slow. Value is their number.
	// The reader of a ring makes this event; no engine writes it.
	KindLost

	// KindEnd is the last event of a trace. Value is the number of events before it, and Index is 1 if the
	// trace ends because the engine has stopped. The writer of a trace makes this event.
	KindEnd

	// The kinds after KindEnd are recorded for a watch that asks for what a replay needs; see package
	// trace/replay. Up to KindPayload they are those of minor version 1.

	// KindCQ says that a completion queue exists: when a watch begins, and when the queue is made or resized.
	// Queue is its number, Index one of KeyGone, KeyMade and KeyChanged, Value the number of its client, and
	// Data a CQSetup.
	KindCQ

	// KindSRQ says that a shared receive queue exists. Its fields are as in KindCQ, and Data is an SRQSetup.
	KindSRQ

	// KindReceive says that the device has read a receive for the message of a WQE that it executes. Queue is
	// the number of the receive's queue, Index the receive's entry, Count 0 if the queue is the receive
	// queue of the queue pair Value, and 1 if it is a shared receive queue. Data is the entry.
	KindReceive

	// KindPayload says which bytes the device moves for the WQE Index of the queue pair Queue: those that it
	// has read at the source, from a place in the message on. Value is that place, and in the upper 32 bits
	// the checksum of Data (CRC-32C); see Event.PayloadAt. Data are the bytes. On UD, the message begins with
	// the 40 bytes of the GRH; the bytes of an atomic are the old value of its word.
	KindPayload

	// KindPlan is what was to happen, of a run whose clients and faults were drawn (nicless torture
	// --explore): a piece of a text in JSON, which package tools/explore describes. Such events come first.
	// Value is the bytes of the whole text, Index the number of the piece, Data the piece. It is the kind of
	// minor version 2.
	KindPlan

	// The kinds after KindPlan are recorded for a watch that asks for what package sanitize needs. They are
	// those of minor version 4.

	// KindPosted says that the device has found a receive that a program has posted. Queue is the number of
	// the receive's queue, Index the receive's entry, Count 0 if the queue is that of a queue pair, and 1 if
	// it is a shared receive queue. Value is the number of the client, and Data the entry.
	KindPosted

	// KindPolled says how far a program has taken completions. Queue is the number of the completion queue,
	// and Value the producer index of the first that was not taken (see KindCQE), Index its lower 16 bits. It
	// comes before the events of what the program posted after it had taken them.
	KindPolled

	// KindChanged says that somebody has changed bytes that belong to the device, between the moment when the
	// device found the WQE or the receive Index of Queue, and its completion. Count is a ChangedPart, Value
	// the number of the piece in the list, or of the block in the WQE. Data are a Change, or, of a WQE and an
	// entry, the bytes that were found, and as many that are there now.
	KindChanged

	kinds // the number of kinds
)

var kindNames = [kinds]string{
	"skip", "client", "client-gone", "queue", "queue-gone", "state", "doorbell", "fetch", "execute", "wait",
	"slice", "fail", "cqe", "sent", "received", "explanation", "key", "link", "lost", "end",
	"cq", "srq", "receive", "payload", "plan", "posted", "polled", "changed",
}

// String returns the kind in one lower-case word, as it is in text and in JSON.
func (k Kind) String() string {
	if k < kinds {
		return kindNames[k]
	}
	return fmt.Sprintf("kind-%d", uint8(k))
}

// An Event is one thing that the device did. Its kind says what the other fields mean.
type Event struct {
	Kind   Kind
	Number uint32 // of the event in its shard, modulo 2^32
	Time   uint64 // device clock, in ticks
	Queue  uint32
	Index  uint16
	Count  uint16
	Value  uint64
	Data   []byte // valid until the next event is read
}

// CodeSize is the bytes of the code of an explanation.
const CodeSize = 24

// CompletionAt returns the completion i of an event of kind KindCQE, from 0 to Count-1.
func (e *Event) CompletionAt(i int) (b [64]byte) {
	copy(b[:], e.Data)
	const counter = 60 // offset of wqe_counter
	binary.BigEndian.PutUint16(b[counter:], binary.BigEndian.Uint16(b[counter:])+uint16(i))
	return b
}

// A WaitReason says why a WQE cannot go on yet.
type WaitReason uint64

const (
	NoPeer      WaitReason = 1 // the peer is absent, or not ready
	NoReceive   WaitReason = 2 // the peer has no receive posted (RNR)
	BehindQueue WaitReason = 3 // WAIT: a completion queue has not reached an index
	HeldBack    WaitReason = 4 // a rule of faults holds the WQE back
)

// String returns the reason in words.
func (r WaitReason) String() string {
	switch r {
	case NoPeer:
		return "no peer"
	case NoReceive:
		return "no receive"
	case BehindQueue:
		return "behind a completion queue"
	case HeldBack:
		return "held back by a rule of faults"
	}
	return fmt.Sprintf("reason %d", uint64(r))
}
