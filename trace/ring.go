package trace

import (
	"errors"
	"fmt"
	"slices"

	"github.com/nicless/nicless/internal/shm"
)

const (
	ringMagic    = "nicltrng"
	RingHeadSize = 4096 // bytes of a ring before its data area
	PublishedAt  = 128  // offset of the word that counts the bytes of whole records
	ReservedAt   = 192  // offset of the word that counts the bytes that may be overwritten

	// LeastRing and MostRing bound the data area of a ring, in bytes. The least has room for some records
	// of the largest size.
	LeastRing = 256 << 10
	MostRing  = 1 << 30
)

// PutRingHead writes the header of a ring of one shard, whose data area has n bytes, to b.
func PutRingHead(b []byte, c Clock, shard, n int) {
	copy(b, ringMagic)
	le.PutUint32(b[8:], Version)
	le.PutUint32(b[12:], uint32(shard))
	le.PutUint64(b[16:], uint64(n))
	le.PutUint64(b[24:], c.Hz)
	le.PutUint64(b[32:], c.Ticks)
	le.PutUint64(b[40:], uint64(c.Unix))
	le.PutUint64(b[48:], c.GUID)
}

// A Ring is the end of a ring that reads. It is not safe for concurrent use. Several watchers may read one
// ring, each by a Ring of its own.
type Ring struct {
	mem       []byte // header and data area, which the engine writes
	data      []byte
	clock     Clock
	shard     int
	pos       uint64 // bytes of the ring that were copied
	number    uint32 // number of the next event
	buf       []byte // private copy of a part of the ring
	rest      []byte // the part of buf that was not returned yet: the ring's bytes up to pos
	published *shm.Word64
	reserved  *shm.Word64
}

// NewRing returns the end that reads the ring in mem, from its oldest record on if none has been overwritten
// yet, otherwise from the newest. mem is mapped memory: it begins on an 8-byte boundary.
func NewRing(mem []byte) (*Ring, error) {
	if len(mem) < RingHeadSize || string(mem[:len(ringMagic)]) != ringMagic {
		return nil, errors.New("trace: this memory is no ring of events")
	}
	if v := le.Uint32(mem[8:]); v != Version {
		return nil, fmt.Errorf("trace: ring of version %d; this program reads version %d", v, Version)
	}
	n := le.Uint64(mem[16:])
	if n < LeastRing || n > MostRing || n&(n-1) != 0 || n != uint64(len(mem)-RingHeadSize) {
		return nil, fmt.Errorf("trace: ring of %d bytes in memory of %d; it is a power of two from %d to %d, and %d less",
			n, len(mem), LeastRing, MostRing, RingHeadSize)
	}
	r := &Ring{mem: mem, data: mem[RingHeadSize:], shard: int(le.Uint32(mem[12:])),
		clock: Clock{Hz: le.Uint64(mem[24:]), Ticks: le.Uint64(mem[32:]), Unix: int64(le.Uint64(mem[40:])),
			GUID: le.Uint64(mem[48:])}}
	if r.clock.Hz == 0 {
		return nil, errors.New("trace: a clock of 0 ticks in a second")
	}
	r.published, r.reserved = shm.Word64At(mem, PublishedAt), shm.Word64At(mem, ReservedAt)
	if r.reserved.Observe() > n {
		r.pos = r.published.Observe()
	}
	return r, nil
}

// Clock returns the clock of the ring's times.
func (r *Ring) Clock() Clock { return r.clock }

// Shard returns the number of the shard that writes the ring.
func (r *Ring) Shard() int { return r.shard }

// mostCopied bounds the bytes that are copied from a ring at once, so that a large ring does not need as
// much private memory again. It is more than a record has.
const mostCopied = 1 << 20

// Next returns the next event. ok is false if there is none yet. The event's data are valid until the next
// call. If events were overwritten before they were read, Next returns an event of kind KindLost. An error
// is a *RecordError; then the ring cannot be read any further.
func (r *Ring) Next(e *Event) (ok bool, err error) {
	for {
		size := 0
		if len(r.rest) > 0 {
			*e, size, _, err = parse(r.rest)
			if err != nil {
				err.(*RecordError).At = int64(r.pos) - int64(len(r.rest))
				return false, err
			}
		}
		if size == 0 { // the copy ends here, or within a record
			if !r.fill() {
				return false, nil
			}
			continue
		}
		if e.Kind == KindSkip {
			r.rest = r.rest[size:]
			continue
		}
		missing := e.Number - r.number
		if missing != 0 {
			r.number = e.Number // the next call returns this event
			*e = Event{Kind: KindLost, Time: e.Time, Value: uint64(missing)}
			return true, nil
		}
		r.rest = r.rest[size:]
		r.number = e.Number + 1
		return true, nil
	}
}

// fill copies records from the ring, from the first on that was not returned. It reports whether there
// were more than before.
//
// Observe: published and reserved. Published by engine/internal/tap.
func (r *Ring) fill() bool {
	from := r.pos - uint64(len(r.rest))
	for {
		end := r.published.Observe()
		if r.reserved.Observe() > from+uint64(len(r.data)) {
			// The records before published are lost; the numbers of the events say how many.
			from, r.pos, r.rest = end, end, nil
		}
		at := from & uint64(len(r.data)-1)
		n := min(end-from, uint64(len(r.data))-at, mostCopied)
		if n <= r.pos-from {
			return false
		}
		r.buf = slices.Grow(r.buf[:0], int(n))[:n]
		for i := uint64(0); i < n; i += 8 {
			// Loads with acquire order come before the load of reserved below; those of copy need not.
			le.PutUint64(r.buf[i:], shm.Word64At(r.data, at+i).Observe())
		}
		if r.reserved.Observe() > from+uint64(len(r.data)) {
			continue // the copy may have newer records in it
		}
		r.pos, r.rest = from+n, r.buf
		return true
	}
}
