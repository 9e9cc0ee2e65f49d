package nicless

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/hostpath"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// The forms in which a queue pair is given to accelerators.
type (
	// An Export is the argument of accel.NewQueue.
	Export = hostpath.Export

	// A Raw is the shared memory of a queue pair.
	//
	//	QPN      uint32
	//	Send     []byte // ring of blocks of 64 bytes
	//	Recv     []byte // ring of Receives entries; nil: receives come from an SRQ
	//	Receives int
	//	Record   []byte // doorbell record, 8 bytes
	//	Register []byte // doorbell register, two halves of 256 bytes
	//	SendCQ   RawCQ
	//	RecvCQ   RawCQ
	//
	// The methods SendParams and RecvParams return a Raw as parameters for RDMaxcel's
	// functions.
	Raw = hostpath.Raw

	// A RawCQ is the shared memory of a completion queue. Its fields are Ring, which has
	// entries of EntrySize bytes, and Record, 8 bytes. The method PollParams returns a
	// RawCQ as parameters for RDMaxcel's functions.
	RawCQ = hostpath.RawCQ
)

// Export lets an accelerator use a Concurrent queue pair. The accelerator posts to the
// queue pair and polls its SendCQ, while the host may do so too. The SendCQ must be
// PollOnly or Collapsed, because a goroutine in Wait could miss completions that another
// poller takes. After Export, a Collapsed SendCQ belongs to the sends of this queue pair
// alone. Other queue pairs and receives cannot use it, because their completions would
// overwrite those of the sends. The Export is valid until the queue pair is closed.
func (q *QP) Export() (Export, error) {
	const what = "export QP"
	if err := q.usable(); err != nil {
		return Export{}, wrap(what, err)
	}
	switch {
	case q.sharedSQ == nil:
		return Export{}, wrap(what, errors.New("made without Concurrent"))
	case q.cqs[0].channel != nil:
		return Export{}, wrap(what, errors.New("its SendCQ has a channel; make it PollOnly or Collapsed"))
	}
	if cq := q.cqs[0]; cq.cfg.Collapsed {
		if n := cq.senders.Load(); n != 1 {
			return Export{}, wrap(what, fmt.Errorf("its SendCQ %#06x is collapsed and has the sends of %d queue pairs; give it one of its own", cq.cqn, n))
		}
		cq.exported.Store(true)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.sink == nil {
		var err error
		q.sink, err = q.pd.RegisterMemory(8, LocalWrite)
		if err != nil {
			return Export{}, err
		}
	}
	return Export{Send: q.sharedSQ, SendCQ: q.cqs[0].cq, Sink: q.sink.SGE(0, 8), Err: q.ended,
		Wake: q.c.waker.wake}, nil
}

// ended returns why no further send will complete, or nil if sends can complete.
func (q *QP) ended() error {
	if err := q.usable(); err != nil {
		return err
	}
	if q.cqs[0].overrun.Load() {
		return ErrOverrun
	}
	return nil
}

// Raw returns the shared memory of the queue pair, for code that writes WQEs itself, as
// RDMaxcel does. A program posts and polls either through this memory or by the methods of
// QP and CQ, but not both. The memory is valid until the queue pair is closed, and only
// while the program refers to the QP (see runtime.KeepAlive). Raw returns an error if the queue
// pair was made with QPConfig.BlueFlame, or if one of its CQs was made with CQConfig.Compressed.
func (q *QP) Raw() (Raw, error) {
	if err := q.usable(); err != nil {
		return Raw{}, wrap("raw QP", err)
	}
	if q.flames {
		return Raw{}, wrap("raw QP", errors.New("made with BlueFlame: its register is for WQEs of its own poster"))
	}
	if q.cqs[0].cfg.Compressed || q.cqs[1].cfg.Compressed {
		return Raw{}, wrap("raw QP", errors.New("its CQ is Compressed: RDMaxcel's functions read ordinary entries only"))
	}
	q.c.sharedRaw()
	r := Raw{
		QPN: q.qpn, Send: q.sends.Memory(), Record: q.rec.mem[:8:8], Register: q.register,
		SendCQ: q.cqs[0].raw(), RecvCQ: q.cqs[1].raw(),
	}
	if q.rq != nil {
		r.Recv, r.Receives = q.rq.Memory(), q.rq.Entries()
	}
	return r, nil
}

func (q *CQ) raw() RawCQ {
	return RawCQ{Ring: q.cq.Memory(), EntrySize: q.cfg.entrySize(), Record: q.rec.mem[:8:8]}
}

// A layouter is a device whose memory is in a file.
type layouter interface {
	// memory returns nil if the memory is in no file.
	memory() *fileMemory
}

func (c *client) fileMemory() (*fileMemory, error) {
	if d, ok := c.dev.(layouter); ok && d.memory() != nil {
		return d.memory(), nil
	}
	return nil, errors.New("its memory is in no file; open the context with Config.Memory")
}

// A finder collects places, and what is in no region.
type finder struct {
	f    *fileMemory
	lost error
}

func (x *finder) place(addr, n uint64) Place {
	p, ok := x.f.place(addr, n)
	if !ok {
		x.lost = ErrClosed
	}
	return p
}

func (x *finder) cq(q *CQ) RawCQLayout {
	return RawCQLayout{
		CQN: q.cqn, EntrySize: q.cfg.entrySize(),
		Ring:   x.place(q.buf.addr, uint64(len(q.cq.Memory()))),
		Record: x.place(q.rec.addr, doorbell.RecordSize),
	}
}

// Layout says where the memory of the queue pair is in Config.Memory, for a poster that maps the
// file: it posts and polls as through QP.Raw, to whose rules it is bound. The layout contains no
// address, so it may be sent to other processes and machines (encoding/json). It is valid until
// the queue pair is closed. From the first call on, the engine of the context does not expect to
// be woken by its posters, and naps rather than sleeps.
func (q *QP) Layout() (RawLayout, error) {
	const what = "layout of QP"
	raw, err := q.Raw()
	if err != nil {
		return RawLayout{}, err
	}
	f, err := q.c.fileMemory()
	if err != nil {
		return RawLayout{}, wrap(what, err)
	}
	x := finder{f: f}
	l := RawLayout{
		QPN: raw.QPN, Receives: raw.Receives, Record: x.place(q.rec.addr, doorbell.RecordSize),
		Register: Place{Offset: f.uar.at + q.registerAt, Size: doorbell.BFRegSize},
		SendCQ:   x.cq(q.cqs[0]), RecvCQ: x.cq(q.cqs[1]),
	}
	sends, recvs := uint64(len(raw.Send)), uint64(len(raw.Recv))
	if recvs > 0 {
		l.Recv = x.place(q.rings.addr, recvs)
		recvs = max(recvs, wqe.BlockSize) // the send ring begins on a multiple of its blocks
	}
	l.Send = x.place(q.rings.addr+recvs, sends)
	return l, wrap(what, x.lost)
}

// Layout says where the memory is in Config.Memory, and how work requests name it.
func (m *MR) Layout() (MemoryLayout, error) {
	const what = "layout of memory"
	if m.pd == nil {
		return MemoryLayout{}, wrap(what, errZero)
	}
	if m.closed.Load() {
		return MemoryLayout{}, wrap(what, ErrClosed)
	}
	c := m.pd.ctx
	if err := c.err(); err != nil {
		return MemoryLayout{}, wrap(what, err)
	}
	f, err := c.fileMemory()
	if err != nil {
		return MemoryLayout{}, wrap(what, err)
	}
	p, ok := f.place(m.root().base+uint64(m.off), uint64(len(m.mem)))
	if !ok {
		return MemoryLayout{}, wrap(what, ErrClosed)
	}
	return MemoryLayout{Place: p, Addr: m.addr, Key: m.key}, nil
}

// A Memory is a part of a file. Open places in it everything that posts, polls and payloads use:
// queues, doorbell records, registers and registered memory. Programs that map the file can then
// post and poll by themselves ([QP.Layout], [MR.Layout]), in other processes or in virtual machines
// that have the file as memory of a PCI device. They need no connection to the engine, and no
// wake-ups: after the first Layout the engine only naps while it has no work.
//
// A process that can write to the file can write to all of these queues and to all of this memory. The
// engine treats what it reads there as it treats memory of any client: a wrong request harms its own
// queue pair and nothing else. But a process that can make the file shorter, or remove pages, can take
// memory away. The engine survives that, and ends the queue pairs whose memory it was. The
// program itself may die of it (SIGBUS), in calls that make objects, post or poll. So only trusted
// parties may have the file. A virtual machine cannot make its PCI device's memory shorter. If the
// file is a memfd that can be sealed, Open makes sure that no process can make it shorter.
type Memory struct {
	// File is an ordinary file, best in tmpfs, or a memfd. Open duplicates its descriptor, so
	// File may be closed after Open.
	File *os.File

	// Offset and Size say which part of the file is used. Both are multiples of the page
	// size, 4096. A Size of 0 means the rest of the file. Queues take the part in pieces of 1 MiB
	// or more, registers take 16 KiB. The data that the file held is overwritten with zeros as it is used.
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
	free []span          // ordered by at; two neighbours never touch
	used map[uint32]span // spans of regions, by the device's number of the region
	uar  span            // span of the UAR pages
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
	f.free[i].at, f.free[i].size = s.at+n, f.free[i].size-n
	if f.free[i].size == 0 {
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
		a, b := f.free[i], f.free[i+1]
		if a.at+a.size == b.at {
			f.free[i].size += b.size
			f.free = slices.Delete(f.free, i+1, i+2)
			continue
		}
		i++
		if b.at > s.at {
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
