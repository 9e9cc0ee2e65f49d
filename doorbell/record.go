package doorbell

import "encoding/binary"

// Words of a doorbell record, by number; word w lies at byte 4*w.
const (
	RecvWord = 0 // QP, SRQ: receives posted (MLX5_RCV_DBR)
	SendWord = 1 // QP: next free send block (MLX5_SND_DBR)
	CIWord   = 0 // CQ: consumer index (MLX5_CQ_SET_CI)
	ArmWord  = 1 // CQ: arm request (MLX5_CQ_ARM_DB)
)

// RecordSize is the bytes of a QP's or a CQ's record. An SRQ's is one word.
const RecordSize = 8

// Masks of the bits that count in a word. Clients write more: up to all 32 bits.
const (
	CounterMask = 1<<16 - 1
	CIMask      = 1<<24 - 1
)

// MaxRing is the most blocks or receives that a queue may hold: half of the values
// of a counter, so that Pending is never ambiguous.
const MaxRing = 1 << 15

// Counter returns the counter in the record word of a QP or SRQ, as a device reads it.
func Counter(word uint32) uint16 { return uint16(word) }

// CI returns the consumer index in the record word of a CQ, 24 bits, as a device reads it.
func CI(word uint32) uint32 { return word & CIMask }

// Pending is how far a record word is ahead of the consumed counter, in
// blocks or receives, for a queue that holds ring of them (at most [MaxRing]). If
// that is more than the queue holds, the client is at fault (a counter that went
// back looks the same) and Pending returns 0, false: a device then ignores the word.
func Pending(word uint32, consumed uint16, ring int) (n int, ok bool) {
	n = int(Counter(word) - consumed)
	if n > ring {
		return 0, false
	}
	return n, true
}

// InUse returns how many completions a CQ's consumer has not taken yet: produced,
// counted by the device, less the record's consumer index, modulo 2^24. A CQ of
// 1<<log entries has room while InUse is below that.
func InUse(produced uint64, word uint32) uint32 { return (uint32(produced) - word) & CIMask }

// Record is the two words of a QP's or a CQ's record, as numbers.
type Record [2]uint32

// ParseRecord reads a record.
func ParseRecord(src *[RecordSize]byte) Record {
	return Record{binary.BigEndian.Uint32(src[0:4]), binary.BigEndian.Uint32(src[4:8])}
}

// Put writes a record. It is for private copies: in shared memory the words
// have two writers and are stored one by one.
func (r Record) Put(dst *[RecordSize]byte) {
	binary.BigEndian.PutUint32(dst[0:4], r[0])
	binary.BigEndian.PutUint32(dst[4:8], r[1])
}
