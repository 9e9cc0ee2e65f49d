package pool

import (
	"github.com/nicless/nicless/internal/cpu"
	"github.com/nicless/nicless/internal/packetring"
	"github.com/nicless/nicless/internal/shm"
)

// A view is the pool's memory as this node reads and writes it. Each line is written by one node,
// so lines that a node invalidates have no changes of its own.
type view struct {
	mem   []byte
	cache packetring.Cache // nil: coherent
}

// load returns the 8 bytes at an offset.
func (v *view) load(at uint64) uint64 {
	v.invalidate(at, 8)
	return v.word(at)
}

// word is load for memory that invalidate was called for.
func (v *view) word(at uint64) uint64 { return shm.BE64At(v.mem, at).Observe() }

// store makes 8 bytes visible to other nodes, after everything that was stored before.
func (v *view) store(at, value uint64) {
	v.put(at, value)
	v.writeBack(at, 8)
}

// put is store for memory that writeBack is called for later. If it is not coherent, words of one
// line become visible in the order of the puts, or together.
func (v *view) put(at, value uint64) { shm.BE64At(v.mem, at).Publish(value) }

// read copies bytes, whole words of 8, that others may change meanwhile.
func (v *view) read(at uint64, to []byte) {
	v.invalidate(at, len(to))
	for i := 0; i < len(to); i += 8 {
		be.PutUint64(to[i:], v.word(at+uint64(i)))
	}
}

// write copies bytes, whole words of 8, and makes them visible to others in any order.
func (v *view) write(at uint64, from []byte) {
	for i := 0; i < len(from); i += 8 {
		v.put(at+uint64(i), be.Uint64(from[i:]))
	}
	v.writeBack(at, len(from))
}

func (v *view) invalidate(at uint64, n int) {
	if v.cache != nil {
		v.cache.Invalidate(v.mem[at:][:n])
	}
}

func (v *view) writeBack(at uint64, n int) {
	if v.cache != nil {
		v.cache.WriteBack(v.mem[at:][:n])
	}
}

// flusher is the Cache of this machine's processor.
type flusher struct{}

func (flusher) WriteBack(b []byte)  { cpu.WriteBackLines(b) }
func (flusher) Invalidate(b []byte) { cpu.InvalidateLines(b) }
