package doorbell

import "encoding/binary"

// Words of a doorbell record, by number. Word w begins at byte 4*w.
const (
	RecvWord = 0 // QP, SRQ: receives posted (MLX5_RCV_DBR)
	SendWord = 1 // QP: next free send block (MLX5_SND_DBR)
	CIWord   = 0 // CQ: consumer index (MLX5_CQ_SET_CI)
	ArmWord  = 1 // CQ: arm request (MLX5_CQ_ARM_DB)
)

// RecordSize is the size of the record of a QP or CQ in bytes. The record of an SRQ is
// one word.
const RecordSize = 8

// Masks of the bits of a word that a device uses. Clients may write all 32 bits.
const (
	CounterMask = 1<<16 - 1
	CIMask      = 1<<24 - 1
)

// MaxRing is the most blocks or receives that a queue may hold. It is half the number
// of values of a counter, so that Pending is never ambiguous.
const MaxRing = 1 << 15

// Counter returns the counter in the record word of a QP or SRQ, as a device reads it.
func Counter(word uint32) uint16 { return uint16(word) }

// CI returns the consumer index in the record word of a CQ, 24 bits, as a device reads it.
func CI(word uint32) uint32 { return word & CIMask }

// Pending returns how far a record word is ahead of the consumed counter, in blocks or
// receives. ring is how many blocks or receives the queue holds, at most [MaxRing]. If the
// word is further ahead than ring, Pending returns 0 and false, and a device ignores the word.
// The client is then at fault: it moved the counter too far, or moved it back.
func Pending(word uint32, consumed uint16, ring int) (n int, ok bool) {
	n = int(Counter(word) - consumed)
	if n > ring {
		return 0, false
	}
	return n, true
}

// InUse returns how many completions a CQ's consumer has not taken yet: the number that the
// device has produced minus the consumer index in word, modulo 2^24. A CQ
// of 1<<log entries has room while InUse is below 1<<log.
func InUse(produced uint64, word uint32) uint32 { return (uint32(produced) - word) & CIMask }

// Record is the two words of a QP's or a CQ's record, as numbers.
type Record [2]uint32

// ParseRecord decodes a copy of a record, for programs that show or test records. Posters,
// pollers and devices of this module use the words of a record in place, one at a time.
func ParseRecord(src *[RecordSize]byte) Record {
	return Record{binary.BigEndian.Uint32(src[0:4]), binary.BigEndian.Uint32(src[4:8])}
}

// Put encodes a record. dst must be private memory: in shared memory the two words may have
// two writers, so each word is stored by itself.
func (r Record) Put(dst *[RecordSize]byte) {
	binary.BigEndian.PutUint32(dst[0:4], r[0])
	binary.BigEndian.PutUint32(dst[4:8], r[1])
}
