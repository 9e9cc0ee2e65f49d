//go:build linux && (amd64 || arm64)

package calibrate

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// A ring of loads is memory whose lines refer to each other in one cycle through all of them. The
// order is not one that a processor foresees.
type loads struct {
	bytes []byte
	at    uint32 // offset of the line that is loaded next
}

// newLoads makes size bytes, a power of two of at least 4096. It asks for huge pages, so that
// translations of addresses cost little.
func newLoads(size int) (*loads, error) {
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("%d bytes for loads from memory: %w", size, err)
	}
	_ = unix.Madvise(b, unix.MADV_HUGEPAGE) // without huge pages the loads take longer
	// A linear congruential generator with these constants goes through all numbers of lines.
	const factor, step = 0x9E3779B5, 0x7F4A7C15
	mask := uint32(size/64 - 1)
	for i := range uint32(size / 64) {
		binary.LittleEndian.PutUint32(b[i*64:], (i*factor+step)&mask*64)
	}
	return &loads{bytes: b}, nil
}

func (l *loads) close() error { return unix.Munmap(l.bytes) }

// run makes n loads, each of which waits for the one before.
func (l *loads) run(n uint64) uint64 {
	at := l.at
	for range n {
		at = binary.LittleEndian.Uint32(l.bytes[at:])
	}
	l.at = at
	return uint64(at)
}

// touch loads each line once, as fast as the processor can, so that the lines are in its caches.
// They may not be there any more since the last row: other programs use the last cache too.
func (l *loads) touch() (sum uint64) {
	for at := 0; at < len(l.bytes); at += 64 {
		sum += uint64(l.bytes[at])
	}
	return sum
}
