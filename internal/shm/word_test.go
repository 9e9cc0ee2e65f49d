package shm

import (
	"encoding/binary"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWordsInMemory(t *testing.T) {
	b := heap(t, PageSize).Bytes()

	BE32At(b, 4).Publish(0x01020304)
	assert.Equal(t, []byte{0, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0}, b[:12])
	assert.Equal(t, uint32(0x01020304), BE32At(b, 4).Observe())

	BE64At(b, 16).Publish(0x0102030405060708)
	assert.Equal(t, []byte{1, 2, 3, 4, 5, 6, 7, 8, 0}, b[16:25])
	assert.Equal(t, uint64(0x0102030405060708), BE64At(b, 16).Observe())

	Word64At(b, 32).Publish(0x0102030405060708)
	assert.Equal(t, []byte{8, 7, 6, 5, 4, 3, 2, 1, 0}, b[32:41])
	assert.Equal(t, uint64(0x0102030405060708), Word64At(b, 32).Observe())
}

func TestBlockInMemory(t *testing.T) {
	b := heap(t, PageSize).Bytes()
	var src [64]byte
	for i := range src {
		src[i] = byte(i + 1)
	}
	BlockAt(b, 64).Publish(&src)
	assert.Equal(t, make([]byte, 64), b[:64], "bytes before the block")
	assert.Equal(t, src[:], b[64:128])
	assert.Equal(t, make([]byte, 64), b[128:192], "bytes after the block")
	assert.Equal(t, uint64(0x393a3b3c3d3e3f40), BlockAt(b, 64).ObserveTail())
}

// shapes are the four kinds of accessors of shared memory.
var shapes = []struct {
	name        string
	size, align uint64
	at          func(b []byte, off uint64)
}{
	{"BE32", 4, 4, func(b []byte, off uint64) { BE32At(b, off) }},
	{"BE64", 8, 8, func(b []byte, off uint64) { BE64At(b, off) }},
	{"Word64", 8, 8, func(b []byte, off uint64) { Word64At(b, off) }},
	{"Block", 64, 64, func(b []byte, off uint64) { BlockAt(b, off) }},
}

func TestUnalignedWordsPanic(t *testing.T) {
	b := heap(t, PageSize).Bytes()
	for _, s := range shapes {
		for off := range 2 * s.align {
			at := func() { s.at(b, off) }
			if off%s.align == 0 {
				assert.NotPanics(t, at, "%s at %d", s.name, off)
			} else {
				assert.PanicsWithValue(t, "shm: word is not aligned", at, "%s at %d", s.name, off)
			}
		}
	}
}

// The limit is the length of a slice, not its capacity, because bytes after the length may
// belong to another queue.
func TestWordsOutsideOfTheSlicePanic(t *testing.T) {
	b := heap(t, 2*PageSize).Bytes()[:PageSize]
	for _, s := range shapes {
		assert.NotPanics(t, func() { s.at(b, PageSize-s.size) }, s.name)
		assert.NotPanics(t, func() { s.at(b[:s.size], 0) }, s.name)
		assert.Panics(t, func() { s.at(b[:s.size-1], 0) }, "%s, one byte short", s.name)
		assert.Panics(t, func() { s.at(b, PageSize) }, "%s at the end", s.name)
		assert.Panics(t, func() { s.at(b, 1<<63) }, "%s far out", s.name)
		assert.Panics(t, func() { s.at(b, -s.align) }, "%s before the beginning", s.name)
		assert.Panics(t, func() { s.at(nil, 0) }, "%s in nothing", s.name)
	}
}

func TestNothingAllocates(t *testing.T) {
	b := heap(t, PageSize).Bytes()
	var src [64]byte
	var sum uint64
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		src[0]++
		BE32At(b, 0).Publish(1)
		BE64At(b, 8).Publish(2)
		Word64At(b, 16).Publish(3)
		BlockAt(b, 64).Publish(&src)
		sum += uint64(BE32At(b, 0).Observe()) + BE64At(b, 8).Observe() +
			Word64At(b, 16).Observe() + BlockAt(b, 64).ObserveTail()
	}))
	assert.NotZero(t, sum)
}

// many returns how often a test tries an order. A few tries are enough for the race detector,
// which proves the order. Without the detector there are enough tries to catch a store that a
// core reordered.
func many() uint64 {
	if RaceEnabled {
		return 10_000
	}
	return 2_000_000
}

// enough reports whether a test of an order, after n tries, has taken so long that it should
// stop. If the machine's cores are busy, each try waits for the scheduler. The test does not fail by it.
func enough(begin time.Time, n uint64) bool {
	return n%1024 == 0 && time.Since(begin) > 2*time.Second
}

// waitFor polls like a device, but lets others run from time to time.
func waitFor(ready func() bool) {
	for n := 1; !ready(); n++ {
		if n%200 == 0 {
			runtime.Gosched()
		}
	}
}

// Writer and reader share a ring of blocks, as a device and a poller share a CQ. A block is
// complete when its tail has the expected number. It may be written again when the reader has
// published that it was read. With the race detector both use heap memory, and the detector
// finds a wrong order. Without it they use two mappings of one memfd, and wrong bytes show a
// wrong order.
func TestWhoeverObservesATailSeesTheBlock(t *testing.T) {
	const ring = 8
	var blocks atomic.Uint64
	blocks.Store(many())
	writer, reader := twoViews(t, PageSize)
	const credit = 1024 // offset at which the reader publishes how many blocks it has read

	var done sync.WaitGroup
	begin := time.Now()
	done.Go(func() {
		for n := uint64(1); n <= blocks.Load(); n++ {
			waitFor(func() bool { return Word64At(writer, credit).Observe()+ring >= n })
			BlockAt(writer, n%ring*64).Publish(numbered(n))
			if enough(begin, n) {
				blocks.Store(n)
			}
		}
	})

	torn := 0
	for n := uint64(1); n <= blocks.Load(); n++ {
		b := BlockAt(reader, n%ring*64)
		waitFor(func() bool { return b.ObserveTail() == n || n > blocks.Load() })
		if n > blocks.Load() {
			break
		}
		if *numbered(n) != [64]byte(*b) {
			torn++
		}
		Word64At(reader, credit).Publish(n)
	}
	done.Wait()
	assert.Zero(t, torn, "of %d blocks", blocks.Load())
}

// numbered returns a block with n in every word. The last word is the tail.
func numbered(n uint64) *[64]byte {
	var b [64]byte
	for i := 0; i < 64; i += 8 {
		binary.BigEndian.PutUint64(b[i:], n)
	}
	return &b
}

// Payload first, then the record: every queue depends on this order.
func TestWhoeverObservesAWordSeesWhatWasStoredBefore(t *testing.T) {
	var rounds atomic.Uint64
	rounds.Store(many() / 10)
	const payload, record, answer = 0, 64, 128
	writer, reader := twoViews(t, PageSize)

	var done sync.WaitGroup
	begin := time.Now()
	done.Go(func() {
		for n := uint32(1); uint64(n) <= rounds.Load(); n++ {
			binary.LittleEndian.PutUint32(writer[payload:], n) // a plain store
			BE32At(writer, record).Publish(n)
			waitFor(func() bool { return BE64At(writer, answer).Observe() == uint64(n) })
			if enough(begin, uint64(n)) {
				rounds.Store(uint64(n))
			}
		}
	})

	stale := 0
	for n := uint32(1); uint64(n) <= rounds.Load(); n++ {
		waitFor(func() bool { return BE32At(reader, record).Observe() == n || uint64(n) > rounds.Load() })
		if uint64(n) > rounds.Load() {
			break
		}
		if binary.LittleEndian.Uint32(reader[payload:]) != n {
			stale++
		}
		BE64At(reader, answer).Publish(uint64(n))
	}
	done.Wait()
	assert.Zero(t, stale, "of %d payloads", rounds.Load())
}

func BenchmarkPublish(b *testing.B) {
	r, err := Heap(PageSize)
	require.NoError(b, err)
	mem := r.Bytes()
	var src [64]byte
	b.Run("word", func(b *testing.B) {
		w := BE32At(mem, 0)
		for b.Loop() {
			w.Publish(1)
		}
	})
	b.Run("block", func(b *testing.B) {
		w := BlockAt(mem, 64)
		for b.Loop() {
			w.Publish(&src)
		}
	})
}
