//go:build linux && (amd64 || arm64)

package calibrate

import (
	"encoding/binary"

	"github.com/nicless/nicless/internal/cpu"
	"github.com/nicless/nicless/internal/shm"
)

const (
	slots     = 256  // lines of the rings of descriptors and completions
	dataLines = 4096 // lines for blocks and chains
	copied    = 4096 // longest copy in bytes
)

// Offsets of the lines. Each of the first pages holds one line, so that no prefetch fetches it together
// with a neighbour.
const (
	startAt = shm.PageSize * iota
	requestAt
	responseAt
	sharedAt
	counterAt
	ownCountersAt // one of each thread, in two lines far apart
	descriptorsAt
	completionsAt = descriptorsAt + slots*64
	dataAt        = completionsAt + slots*64
	sourceAt      = dataAt + dataLines*64
	targetAt      = sourceAt + copied
	memorySize    = targetAt + copied
)

// A memory has all lines that the two threads exchange. The published value is the number of an
// exchange. It never repeats, so no shape has to clear what another one left.
type memory struct {
	region                           *shm.Region
	bytes                            []byte
	start, request, response, shared *shm.Word64
	head                             *shm.Word64 // a word in the line of request
	counter                          []byte
	own                              [2][]byte // a counter of each thread
	sum, ownSum                      uint64    // values of counter, and of each of own, when a row begins
	source, target                   []byte
}

func newMemory() (*memory, error) {
	create := shm.Create
	if shm.RaceEnabled {
		create = func(_ string, size int) (*shm.Region, error) { return shm.Heap(size) }
	}
	r, err := create("calibrate", memorySize)
	if err != nil {
		return nil, err
	}
	b := r.Bytes()
	clear(b) // touches all pages, so that no page fault comes later
	word := func(off uint64) *shm.Word64 { return shm.Word64At(b, off) }
	return &memory{
		region: r, bytes: b,
		start: word(startAt), request: word(requestAt), response: word(responseAt), shared: word(sharedAt),
		head:    word(requestAt + 8),
		counter: b[counterAt : counterAt+8],
		own:     [2][]byte{b[ownCountersAt : ownCountersAt+8], b[ownCountersAt+2048 : ownCountersAt+2056]},
		source:  b[sourceAt:targetAt], target: b[targetAt:memorySize],
	}, nil
}

func (m *memory) close() error { return m.region.Close() }

// A line is a cache line whose last word is published.
type line struct {
	block *shm.Block
	tail  *shm.Word64
}

func (m *memory) at(off uint64) line {
	return line{shm.BlockAt(m.bytes, off), shm.Word64At(m.bytes, off+56)}
}

func (m *memory) descriptor(i uint64) line { return m.at(descriptorsAt + i%slots*64) }
func (m *memory) completion(i uint64) line { return m.at(completionsAt + i%slots*64) }
func (m *memory) data(i uint64) line       { return m.at(dataAt + i%dataLines*64) }

// put fills a line and publishes its last word.
func put(l line, v uint64) {
	le, b := binary.LittleEndian, l.block
	le.PutUint64(b[0:8], v)
	le.PutUint64(b[8:16], v)
	le.PutUint64(b[16:24], v)
	le.PutUint64(b[24:32], v)
	le.PutUint64(b[32:40], v)
	le.PutUint64(b[40:48], v)
	le.PutUint64(b[48:56], v)
	l.tail.Publish(v)
}

// get reads a line.
func get(l line) uint64 {
	le, b := binary.LittleEndian, l.block
	return le.Uint64(b[0:8]) + le.Uint64(b[8:16]) + le.Uint64(b[16:24]) + le.Uint64(b[24:32]) +
		le.Uint64(b[32:40]) + le.Uint64(b[40:48]) + le.Uint64(b[48:56]) + l.tail.Observe()
}

// await polls a word until it has the value v. All floors poll with the same machine code: on a
// Zen 5 the same exchange of the same lines took 110 or 168 ns, depending on whether the loop
// kept the address of the word in a register.
//
//go:noinline
func await(w *shm.Word64, v uint64) {
	for w.Observe() != v {
	}
}

// awaitCalmly is await for shapes with much work between two polls, whose differences are prices. While a
// processor polls, it predicts now and then that the value has come, and begins with what the thread
// does next: it fetches lines that will be read, and takes lines that will be written from the
// core that is using them. On amd64 nothing begins before the PAUSE ends, and the processor knows by
// then. All of a difference's shapes contain as many pauses.
//
//go:noinline
func awaitCalmly(w *shm.Word64, v uint64) {
	for w.Observe() != v {
	}
	cpu.Relax(1)
}
