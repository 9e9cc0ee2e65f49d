package trace

import (
	"fmt"
	"hash/crc32"
)

// A QueueSetup says how a queue pair was made and what its attributes are: what a replay needs besides its
// QueueInfo, which it follows in the data of an event of kind KindQueue. Sizes are powers of two, and
// attributes have the codes of verbs.
type QueueSetup struct {
	PD              uint32 // number of its protection domain
	Access          uint32 // bits of ibv_access_flags
	QKey            uint32
	UserIndex       uint32 // is in its completions
	MaxRdAtomic     uint8
	MaxDestRdAtomic uint8
	MinRNRTimer     uint8
	RNRRetry        uint8
	RetryCount      uint8
	Timeout         uint8
	LogStride       uint8 // of the bytes of a receive
	Flags           QueueFlags
	Scatter         uint8 // bit 0: results of READs go into CQEs, bit 1: messages do
	LogStreams      uint8 // DCI: of the streams that may fail
	Doorbells       Doorbells
	XRCD            uint32
	DCKey           uint64 // DCT: access key
}

// A QueueFlags is bits of options of a queue pair.
type QueueFlags uint8

const (
	OwnReceives QueueFlags = 1 << iota // it has a receive queue of its own
	Signed                             // its WQEs have signatures
	Managed                            // it executes only what SEND_EN enables
	NoSends                            // it has no send queue; SendBlocks of its QueueInfo says nothing then
)

// A Doorbells says what starts the work of a send queue, with the numbers of control.QP.Doorbells. Traces
// before minor version 3 do not say it: they have RecordStarts for all.
type Doorbells uint8

const (
	RecordStarts   Doorbells = iota // the doorbell record alone
	RegisterStarts                  // a doorbell register; the send word of the record is not read
	Guarded                         // a register or the record, and a WQE may arrive after them
)

var doorbellsNames = [...]string{"record", "register", "guarded"}

// String returns what starts the work in one lower-case word, as it is in text and in JSON.
func (d Doorbells) String() string {
	if int(d) < len(doorbellsNames) {
		return doorbellsNames[d]
	}
	return fmt.Sprintf("doorbells %d", uint8(d))
}

// QueueSetupSize is the bytes of a QueueSetup.
const QueueSetupSize = 40

// Append appends the bytes of q to b, in the order of its fields, with a byte of 0 after Doorbells.
func (q *QueueSetup) Append(b []byte) []byte {
	for _, v := range []uint32{q.PD, q.Access, q.QKey, q.UserIndex} {
		b = le.AppendUint32(b, v)
	}
	b = append(b, q.MaxRdAtomic, q.MaxDestRdAtomic, q.MinRNRTimer, q.RNRRetry, q.RetryCount, q.Timeout,
		q.LogStride, uint8(q.Flags), q.Scatter, q.LogStreams, uint8(q.Doorbells), 0)
	return le.AppendUint64(le.AppendUint32(b, q.XRCD), q.DCKey)
}

// ParseQueueSetup returns the QueueSetup in the data of an event of kind KindQueue. ok is false if the trace
// was not recorded for a replay: there is none.
func ParseQueueSetup(data []byte) (q QueueSetup, ok bool) {
	if len(data) < QueueInfoSize+QueueSetupSize {
		return q, false
	}
	b := data[QueueInfoSize:]
	for i, p := range []*uint32{&q.PD, &q.Access, &q.QKey, &q.UserIndex} {
		*p = le.Uint32(b[4*i:])
	}
	for i, p := range []*uint8{&q.MaxRdAtomic, &q.MaxDestRdAtomic, &q.MinRNRTimer, &q.RNRRetry, &q.RetryCount,
		&q.Timeout, &q.LogStride, (*uint8)(&q.Flags), &q.Scatter, &q.LogStreams, (*uint8)(&q.Doorbells)} {
		*p = b[16+i]
	}
	q.XRCD, q.DCKey = le.Uint32(b[28:]), le.Uint64(b[32:])
	return q, true
}

// A KeySetup says how a key was made: what a replay needs besides its KeyInfo, which it follows in the data
// of an event of kind KindKey.
type KeySetup struct {
	From    uint64 // address of the memory in its client
	PD      uint32 // number of its protection domain
	Entries uint32 // most entries of a list; 0: it is no list
	Window  uint32 // 1, 2: a memory window of this type; 0: it is none
}

// KeySetupSize is the bytes of a KeySetup.
const KeySetupSize = 20

// Append appends the bytes of k to b.
func (k KeySetup) Append(b []byte) []byte {
	b = le.AppendUint64(b, k.From)
	for _, v := range []uint32{k.PD, k.Entries, k.Window} {
		b = le.AppendUint32(b, v)
	}
	return b
}

// ParseKeySetup returns the KeySetup in the data of an event of kind KindKey. ok is false if there is none.
func ParseKeySetup(data []byte) (k KeySetup, ok bool) {
	if len(data) < KeyInfoSize+KeySetupSize {
		return k, false
	}
	b := data[KeyInfoSize:]
	return KeySetup{le.Uint64(b), le.Uint32(b[8:]), le.Uint32(b[12:]), le.Uint32(b[16:])}, true
}

// A KeyList says which pieces of memory a list has, if a request has filled it: the one that made it, as the
// firmware commands of UCX do, or a later one before the watch began. It follows the KeySetup of a list since
// minor version 3. Lists whose pieces repeat (interleaved) have no pieces there.
type KeyList struct {
	Invalidate bool // a SEND with invalidate may empty it
	Pieces     []KeyPiece
}

// A KeyPiece is N bytes of memory at an address of a key.
type KeyPiece struct {
	Addr, N uint64
	Key     uint32
}

const (
	keyListSize  = 8
	keyPieceSize = 20
)

// Append appends the bytes of l to b: the number of its pieces, 1 if it may be emptied, three bytes of 0, and
// its pieces.
func (l KeyList) Append(b []byte) []byte {
	b = append(le.AppendUint32(b, uint32(len(l.Pieces))), 0, 0, 0, 0)
	if l.Invalidate {
		b[len(b)-4] = 1
	}
	for _, p := range l.Pieces {
		b = le.AppendUint32(le.AppendUint64(le.AppendUint64(b, p.Addr), p.N), p.Key)
	}
	return b
}

// ParseKeyList returns the KeyList in the data of an event of kind KindKey. ok is false if there is none.
func ParseKeyList(data []byte) (l KeyList, ok bool) {
	if len(data) < KeyInfoSize+KeySetupSize+keyListSize {
		return l, false
	}
	b := data[KeyInfoSize+KeySetupSize:]
	n := uint64(le.Uint32(b))
	l.Invalidate = b[4] == 1
	b = b[keyListSize:]
	if uint64(len(b)) < n*keyPieceSize {
		return KeyList{}, false
	}
	for ; n > 0; n-- {
		l.Pieces = append(l.Pieces, KeyPiece{le.Uint64(b), le.Uint64(b[8:]), le.Uint32(b[16:])})
		b = b[keyPieceSize:]
	}
	return l, true
}

// A CQSetup says how a completion queue was made: the data of an event of kind KindCQ.
type CQSetup struct {
	LogSize  uint8  // of its entries
	LogEntry uint8  // of the bytes of an entry, 6 or 7
	Flags    uint32 // bit 0: collapsed, bit 1: overrun is ignored, bit 2: compressed
}

// CQSetupSize is the bytes of a CQSetup.
const CQSetupSize = 8

// Append appends the bytes of c to b: its sizes, two bytes of 0, and its flags.
func (c CQSetup) Append(b []byte) []byte {
	return le.AppendUint32(append(b, c.LogSize, c.LogEntry, 0, 0), c.Flags)
}

// ParseCQSetup returns the CQSetup in b, which may have further bytes.
func ParseCQSetup(b []byte) (CQSetup, error) {
	if len(b) < CQSetupSize {
		return CQSetup{}, fmt.Errorf("trace: %d bytes of a completion queue; it has %d", len(b), CQSetupSize)
	}
	return CQSetup{b[0], b[1], le.Uint32(b[4:])}, nil
}

// An SRQSetup says how a shared receive queue was made: the data of an event of kind KindSRQ.
type SRQSetup struct {
	PD        uint32
	XRCD      uint32 // domain of an SRQ of XRC; 0: none
	CQ        uint32 // of an SRQ of XRC
	UserIndex uint32 // of an SRQ of XRC
	LogSize   uint8  // of its entries
	LogStride uint8  // of the bytes of an entry
	Cyclic    bool   // entry n is at n modulo the size, and has no link; false before minor version 3
}

// SRQSetupSize is the bytes of an SRQSetup.
const SRQSetupSize = 20

// Append appends the bytes of s to b: its numbers, its sizes, 1 if it is cyclic, and a byte of 0.
func (s SRQSetup) Append(b []byte) []byte {
	for _, v := range []uint32{s.PD, s.XRCD, s.CQ, s.UserIndex} {
		b = le.AppendUint32(b, v)
	}
	cyclic := uint8(0)
	if s.Cyclic {
		cyclic = 1
	}
	return append(b, s.LogSize, s.LogStride, cyclic, 0)
}

// ParseSRQSetup returns the SRQSetup in b, which may have further bytes.
func ParseSRQSetup(b []byte) (SRQSetup, error) {
	if len(b) < SRQSetupSize {
		return SRQSetup{}, fmt.Errorf("trace: %d bytes of a shared receive queue; it has %d", len(b), SRQSetupSize)
	}
	return SRQSetup{le.Uint32(b), le.Uint32(b[4:]), le.Uint32(b[8:]), le.Uint32(b[12:]), b[16], b[17],
		b[18] == 1}, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum returns the checksum of payload: its CRC-32C.
func Checksum(payload []byte) uint32 { return crc32.Checksum(payload, castagnoli) }

// PayloadValue returns the Value of an event of kind KindPayload with these data, which begin at a place in
// their message below 2^32.
func PayloadValue(at uint64, data []byte) uint64 { return at&0xffffffff | uint64(Checksum(data))<<32 }

// PayloadAt returns where the data of an event of kind KindPayload begin in their message, and the checksum
// that they had when they were recorded.
func (e *Event) PayloadAt() (at uint64, sum uint32) {
	return e.Value & 0xffffffff, uint32(e.Value >> 32)
}
