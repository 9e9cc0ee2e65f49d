//go:build linux && (amd64 || arm64)

package netdev

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/nicless/nicless/internal/cpu"
	"github.com/nicless/nicless/internal/shm"
)

// Limits of shared slots.
const (
	maxAreas, maxSlots = 16, 1 << 12
	leastSlots         = 4
)

// A slot has room for the longest packet. Its first line has the tag of the message that the slot
// belongs to; the packet itself begins at the second line, and the virtio header before it.
const (
	line     = cpu.LineSize
	packetAt = line - HeaderSize
	slotSize = (packetAt + MaxPacket + line - 1) &^ (line - 1)
)

const areaMagic = 0x6e69636c65736e61 // "niclesna"

// Slots are memory that several interfaces share. It consists of areas of the same size, one for each
// interface. An area is written by its interface only: a line with magic number and life, and slots:
//
//	0                     magic, 8; life of the interface, 8
//	64 + slotSize n       slot n: tag, 4; virtio header at 54; packet at 64
//
// The memory is never assumed to be blank, and what others have written in it is believed only where it
// agrees with messages.
type slots struct {
	region     *shm.Region
	size       int // bytes of an area
	own        int // number of the own area
	count      int // slots in an area
	incoherent bool
}

// newSlots divides memory into areas. The memory stays the caller's if there is an error.
func newSlots(r *shm.Region, areas, own int, incoherent bool) (*slots, error) {
	size := r.Size() / areas &^ (shm.PageSize - 1)
	s := &slots{region: r, size: size, own: own, count: min(maxSlots, (size-line)/slotSize),
		incoherent: incoherent}
	if size < line || s.count < leastSlots {
		return nil, fmt.Errorf("slots: %d bytes for %d interfaces are %d for each; %d are the least", r.Size(), areas, size, line+leastSlots*slotSize)
	}
	return s, nil
}

// sign writes the owner's life into the own area. The memory may have gone: call it under guard.
//
// Publish: life, which covers the magic number. Observed by slots.signed of other interfaces.
func (s *slots) sign(life uint64) {
	at := s.area(s.own)
	shm.BE64At(at, 0).Publish(areaMagic)
	shm.BE64At(at, 8).Publish(life)
	s.writeBack(at[:line])
}

// signedBy reports whether an area is that of another interface: then both have the same memory.
func (s *slots) signedBy(area int, life uint64) bool {
	return area >= 0 && area != s.own && (area+1)*s.size <= s.region.Size() && s.signed(area, life)
}

// signed reports whether the signature of an area, which must exist, is that of a life.
//
// Observe: life, published by slots.sign.
func (s *slots) signed(area int, life uint64) bool {
	at := s.area(area)
	s.invalidate(at[:line])
	return shm.BE64At(at, 8).Observe() == life && shm.BE64At(at, 0).Observe() == areaMagic
}

func (s *slots) area(n int) []byte { return s.region.Bytes()[n*s.size:][:s.size] }

// slot returns a slot of an area: both must exist.
func (s *slots) slot(area, n int) []byte { return s.area(area)[line+n*slotSize:][:slotSize] }

// claim makes a slot invalid for those who still know its last tag, before it is written.
//
// Publish: tag 0. Observed by slots.open.
func (s *slots) claim(slot []byte) {
	shm.BE32At(slot, 0).Publish(0)
	s.writeBack(slot[:line])
}

// publish gives its tag to a slot that has a virtio header and a packet, together length bytes.
//
// Publish: tag, which covers the packet. Observed by slots.open. The message that names the slot is
// posted after it.
func (s *slots) publish(slot []byte, tag uint32, length int) {
	s.writeBack(slot[packetAt:][:length])
	shm.BE32At(slot, 0).Publish(tag)
	s.writeBack(slot[:line])
}

// open returns the virtio header and the packet in a slot of another interface, if the slot still
// belongs to the message with this tag. Their bytes can change at any time.
//
// Observe: tag, published by slots.publish and slots.claim.
func (s *slots) open(slot []byte, tag uint32, length int) ([]byte, bool) {
	s.invalidate(slot[:packetAt+length])
	return slot[packetAt:][:length], shm.BE32At(slot, 0).Observe() == tag
}

// touch reads from each page of a slot, so that guard sees whether they are there.
func (s *slots) touch(slot []byte) {
	for at := 0; at < len(slot); at += line {
		shm.BE32At(slot, uint64(at)).Observe()
	}
}

func (s *slots) writeBack(b []byte) {
	if s.incoherent {
		cpu.WriteBackLines(b)
	}
}

func (s *slots) invalidate(b []byte) {
	if s.incoherent {
		cpu.InvalidateLines(b)
	}
}

var errGone = errors.New("slots: pages of the memory are gone: has somebody made the file shorter?")

// guard calls f, which accesses the memory. If others have made the file shorter meanwhile, it returns
// errGone, and the program goes on.
func guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if fault := recover(); fault != nil {
			if _, ok := fault.(interface{ Addr() uintptr }); !ok {
				panic(fault)
			}
			err = errGone
		}
	}()
	return f()
}
