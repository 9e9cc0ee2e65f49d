package nicless

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/nicless/nicless/hostpath"
	"github.com/nicless/nicless/internal/shm"
)

// A Memory is a part of a file. Open places in it everything that posts, polls and payloads use:
// queues, doorbell records, registers and registered memory. Programs that map the file can then
// post and poll by themselves ([QP.Layout], [MR.Layout]), in other processes or in virtual machines
// that have the file as memory of a PCI device. They need no connection to the engine, and no
// wake-ups: after the first Layout the engine only naps while it has no work.
//
// Whoever can write to the file can write to all of these queues and to all of this memory. The
// engine treats what it reads there as it treats memory of any client: a wrong request harms its own
// queue pair and nothing else. But whoever can make the file shorter, or remove pages, can take
// memory away. The engine survives that, and ends the queue pairs whose memory it was. The
// program itself may die of it (SIGBUS), in calls that make objects, post or poll. So only trusted
// parties may have the file. A virtual machine cannot make its PCI device's memory shorter. Open
// forbids everybody to make the file shorter if it is a memfd that can be sealed.
type Memory struct {
	// File is an ordinary file, best in tmpfs, or a memfd. Open duplicates its descriptor, so
	// File may be closed after Open.
	File *os.File

	// Offset and Size say which part of the file is used. Both are multiples of the page
	// size, 4096. A Size of 0 means the rest of the file. Queues take the part in pieces of 1 MiB
	// or more, registers take 16 KiB. What the file held is overwritten with zeros as it is used.
	Offset, Size int64
}

// Places in files, for programs that map the file of Config.Memory.
type (
	// A Place is a range of bytes of a Memory. Its method In returns these bytes of a mapping.
	Place = hostpath.Place

	// A RawLayout says where the memory of a queue pair is. Its method In returns it in a
	// mapping, as a Raw.
	RawLayout = hostpath.RawLayout

	// A RawCQLayout says where the memory of a completion queue is.
	RawCQLayout = hostpath.RawCQLayout

	// A MemoryLayout says where registered memory is, and how work requests name it. Its
	// method In returns it in a mapping.
	MemoryLayout = hostpath.MemoryLayout
)

// A fileMemory hands out pieces of a Memory as regions.
type fileMemory struct {
	file         *os.File
	offset, size int64

	mu   sync.Mutex
	free []span // ordered by their beginnings, with gaps between them
	used map[uint32]span
	uar  span
}

// A span is a range of bytes of a Memory.
type span struct {
	at, size uint64
	addr     uint64 // address in this process; 0 for a span that is free
}

// part checks m against the size of its file, and returns the size of the part.
func (m *Memory) part() (int64, error) {
	st, err := m.File.Stat()
	switch {
	case err != nil:
		return 0, err
	case !st.Mode().IsRegular():
		return 0, fmt.Errorf("%s is no ordinary file (%v)", m.File.Name(), st.Mode().Type())
	case m.Offset < 0 || m.Offset%shm.PageSize != 0 || m.Size < 0 || m.Size%shm.PageSize != 0:
		return 0, fmt.Errorf("%d bytes from offset %d on; multiples of %d are possible", m.Size, m.Offset, shm.PageSize)
	case m.Offset >= st.Size() || m.Size > st.Size()-m.Offset:
		return 0, fmt.Errorf("%d bytes from offset %d on; %s has %d", m.Size, m.Offset, m.File.Name(), st.Size())
	case m.Size > 0:
		return m.Size, nil
	}
	size := (st.Size() - m.Offset) &^ (shm.PageSize - 1)
	if size == 0 {
		return 0, fmt.Errorf("%s has %d bytes; at least %d after offset %d are needed", m.File.Name(), st.Size(), shm.PageSize, m.Offset)
	}
	return size, nil
}

// take maps size bytes that are free, and fills them with zeros.
func (f *fileMemory) take(size int) (*shm.Region, span, error) {
	if size < 1 || int64(size) > f.size {
		return nil, span{}, fmt.Errorf("%d bytes of memory; the part of the file has %d", size, f.size)
	}
	n := (uint64(size) + shm.PageSize - 1) &^ (shm.PageSize - 1)
	f.mu.Lock()
	i := slices.IndexFunc(f.free, func(s span) bool { return s.size >= n })
	if i < 0 {
		var left uint64
		for _, s := range f.free {
			left = max(left, s.size)
		}
		f.mu.Unlock()
		return nil, span{}, fmt.Errorf("%d bytes of memory; the part of the file has %d bytes in one piece left", n, left)
	}
	s := span{at: f.free[i].at, size: n}
	if f.free[i].at, f.free[i].size = s.at+n, f.free[i].size-n; f.free[i].size == 0 {
		f.free = slices.Delete(f.free, i, i+1)
	}
	f.mu.Unlock()
	r, err := shm.AttachPart(f.file, f.offset+int64(s.at), int(n))
	if err == nil {
		if err = shm.Zero(r.Bytes()); err != nil {
			err = errors.Join(err, r.Close())
		}
	}
	if err != nil {
		f.give(s)
		return nil, span{}, fmt.Errorf("%d bytes of memory at offset %d of the file: %w", n, f.offset+int64(s.at), err)
	}
	s.addr = r.Addr()
	return r, s, nil
}

// give makes a span free.
func (f *fileMemory) give(s span) {
	s.addr = 0
	f.mu.Lock()
	defer f.mu.Unlock()
	i, _ := slices.BinarySearchFunc(f.free, s, func(a, b span) int {
		if a.at < b.at {
			return -1
		}
		return 1
	})
	f.free = slices.Insert(f.free, i, s)
	for i = max(i-1, 0); i+1 < len(f.free); { // join it with its neighbours
		if a, b := f.free[i], f.free[i+1]; a.at+a.size == b.at {
			f.free[i].size += b.size
			f.free = slices.Delete(f.free, i+1, i+2)
		} else if i++; b.at > s.at {
			break
		}
	}
}

// keep records which region is in a span.
func (f *fileMemory) keep(id uint32, s span) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.used[id] = s
}

// drop makes the span of a region free.
func (f *fileMemory) drop(id uint32) {
	f.mu.Lock()
	s, ok := f.used[id]
	delete(f.used, id)
	f.mu.Unlock()
	if ok {
		f.give(s)
	}
}

// place returns the place of n bytes at an address in this process.
func (f *fileMemory) place(addr, n uint64) (Place, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.used {
		if off := addr - s.addr; off < s.size && n <= s.size-off {
			return Place{Offset: s.at + off, Size: n}, true
		}
	}
	return Place{}, false
}
