package hostpath

import (
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/shm"
	"github.com/stretchr/testify/require"
)

// CQEs that make no sense are skipped and counted, and harm neither the queue nor the
// caller.
func TestNonsense(t *testing.T) {
	put := func(d *device, qpn, index uint32, kind cqe.Opcode, counter uint16) {
		var e [64]byte
		cqe.PutReq(&e, qpn, index, 0x08, counter, 0, 0, cqe.MakeOpOwn(kind, 0, false, cqe.Owner(d.pi, d.log)))
		d.write(&e)
	}
	for _, c := range []struct {
		name       string
		put        func(*bench)
		stale, bad uint64
	}{
		{"no such user index", func(b *bench) { put(b.dev, benchQPN, 1, cqe.Req, 0) }, 1, 0},
		{"user index beyond the table", func(b *bench) { put(b.dev, benchQPN, 0xffffff, cqe.Req, 0) }, 1, 0},
		{"another QP's", func(b *bench) { put(b.dev, benchQPN+1, 0, cqe.Req, 0) }, 1, 0},
		{"not rung yet", func(b *bench) { put(b.dev, benchQPN, 0, cqe.Req, 4) }, 0, 1},
		{"far off", func(b *bench) { put(b.dev, benchQPN, 0, cqe.Req, 0x8000) }, 0, 1},
		{"already completed", func(b *bench) { put(b.dev, benchQPN, 0, cqe.Req, 0xffff) }, 0, 1},
		{"in the middle of a WQE", func(b *bench) { put(b.dev, benchQPN, 0, cqe.Req, 2) }, 0, 1},
		{"error, far off", func(b *bench) { put(b.dev, benchQPN, 0, cqe.ReqErr, 77) }, 0, 1},
		{"receive, none posted", func(b *bench) { put(b.dev, benchQPN, 0, cqe.RespSend, 0) }, 0, 1},
		{"flushed receive, none posted", func(b *bench) { put(b.dev, benchQPN, 0, cqe.RespErr, 0) }, 0, 1},
		{"resize", func(b *bench) { put(b.dev, benchQPN, 0, cqe.ResizeCQ, 0) }, 0, 1},
		{"signature error", func(b *bench) { put(b.dev, benchQPN, 0, cqe.SigErr, 0) }, 0, 1},
		{"reserved opcode", func(b *bench) { put(b.dev, benchQPN, 0, 9, 0) }, 0, 1},
		{"no queues at all", func(b *bench) {
			b.table.Set(0, &QP{QPN: benchQPN})
			put(b.dev, benchQPN, 0, cqe.Req, 0)
			put(b.dev, benchQPN, 0, cqe.RespSend, 0)
		}, 0, 2},
		{"index given back", func(b *bench) {
			b.table.Free(0)
			put(b.dev, benchQPN, 0, cqe.Req, 0)
		}, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, 8, nil)
			_, err := b.sq.PostList([]SendWR{{ID: 1, Op: OpNop}, {ID: 2, Op: OpWrite, Data: make([]byte, 40)}, {ID: 3, Op: OpNop}})
			require.NoError(t, err)
			require.NoError(t, b.sq.Post(&SendWR{ID: 4, Op: OpNop}))
			c.put(b)
			require.Empty(t, b.poll())
			stale, bad := b.cq.Skipped()
			require.Equal(t, [2]uint64{c.stale, c.bad}, [2]uint64{stale, bad})
			require.Equal(t, uint32(c.stale+c.bad), b.cq.ciWord.Observe(), "consumed all the same")
			require.Equal(t, 3, b.sq.Free())

			b.table.Set(0, b.qp)
			put(b.dev, benchQPN, 0, cqe.Req, 3)
			require.Equal(t, []uint64{3}, ids(b.poll()), "what makes sense still counts")
		})
	}
}

// A device that never stops writing, whatever the consumer index says, cannot
// hold the poller forever.
func TestPollReturns(t *testing.T) {
	s := newSetting(t, 0, 5)
	for id := range uint64(8) {
		require.NoError(t, s.rq.PostRecv(&RecvWR{ID: id, SGE: []SGE{{payloadAddr, 8, 7}}}))
	}
	s.rq.Ring()
	q := s.cq(t, 2, 0, inlineCQE(cqe.RespSend, cqe.FormatInline32, 0, 0, 8))
	written := uint16(0)
	q.memory = func(uint32, uint64, int) []byte { // called between two entries
		written++
		e := inlineCQE(cqe.RespSend, cqe.FormatInline32, 0, written, 8)
		e[cqe.OffOpOwn] |= cqe.Owner(uint64(written), q.log)
		copy(q.slot(uint64(written)), e)
		return s.payload
	}
	c := make([]Completion, 8)
	require.Equal(t, 2, q.Poll(c), "one lap")
	require.Equal(t, []uint64{0, 1}, ids(c[:2]))
	require.Equal(t, 2, q.Poll(c))
}

// The low 24 bits of the consumer index are published.
func TestConsumerIndex(t *testing.T) {
	b := newBench(t, 8, nil)
	b.cq.ci, b.dev.pi = 0xff_ffff, 0xff_ffff
	b.cq.ciWord.Publish(0xff_ffff)
	_, err := b.sq.PostList([]SendWR{{ID: 1, Op: OpNop, Flags: Signaled}, {ID: 2, Op: OpNop, Flags: Signaled}})
	require.NoError(t, err)
	require.Equal(t, 2, b.dev.step())
	require.Equal(t, []uint64{1, 2}, ids(b.poll()))
	require.Equal(t, uint32(1), b.cq.ciWord.Observe())
}

// The owner bit distinguishes laps in rings of any size, even of one entry. A poller takes
// no more completions than dst has room for.
func TestOwner(t *testing.T) {
	for _, size := range []int{1, 2, 8} {
		b := newBench(t, 16, nil)
		m := newMemory(t, 4096)
		ring := m.take(size * 64)
		var err error
		b.cq, err = NewCQ(CQConfig{Ring: ring, EntrySize: 64, Record: b.cqRecord, Table: b.table})
		require.NoError(t, err)
		b.dev.cq, b.dev.log = ring, b.cq.log
		id, want := uint64(0), uint64(0)
		for range 5 * size {
			for b.sq.Free() > 0 {
				id++
				require.NoError(t, b.sq.Post(&SendWR{ID: id, Op: OpNop, Flags: Signaled}))
			}
			b.sq.Ring()
			for b.dev.step() > 0 {
				dst := make([]Completion, size)
				for _, c := range dst[:b.cq.Poll(dst[:min(size, 3)])] {
					want++
					require.Equal(t, want, c.ID)
				}
			}
			require.Zero(t, b.cq.Poll(nil))
		}
		require.Greater(t, want, uint64(3*size))
	}
}

// The sequence number of Arm increases only after an event. Two bits of it are sent.
func TestArm(t *testing.T) {
	b := newBench(t, 8, nil)
	word, reg := shm.BE32At(b.cqRecord, 4), shm.BE64At(b.uar, 512)
	for i, c := range []struct {
		seen      int
		solicited bool
		want      uint32
	}{{0, false, 0x00000000}, {0, true, 0x01000000}, {1, false, 0x10000000}, {2, true, 0x31000000}, {1, false, 0}, {5, false, 0x10000000}} {
		for range c.seen {
			b.cq.EventSeen()
		}
		b.cq.Arm(c.solicited)
		require.Equal(t, c.want, word.Observe(), "step %d", i)
		require.Equal(t, uint64(c.want)<<32|0x86, reg.Observe(), "step %d", i)
	}
	b.cq.ci = 0x1_2345_6789
	b.cq.Arm(false)
	require.Equal(t, uint32(0x10456789), word.Observe(), "24 bits of the consumer index")
}

func TestReceive(t *testing.T) {
	b := newBench(t, 4, nil)
	require.Equal(t, 4, b.rq.MaxSGE())
	for i := range uint64(5) {
		err := b.rq.PostRecv(&RecvWR{ID: i, SGE: sge(64)})
		if i == 4 {
			require.ErrorIs(t, err, ErrFull)
		} else {
			require.NoError(t, err)
		}
	}
	b.dev.recv(0, 7)
	require.Empty(t, b.poll(), "posted, but not rung: the device cannot know")
	b.dev.pi, b.cq.ci = 0, 0
	b.rq.Ring()
	for i := range uint16(2) {
		b.dev.recv(i, 7)
	}
	got := b.poll()
	require.Equal(t, []uint64{0, 1}, ids(got))
	require.Equal(t, uint32(7), got[0].ByteLen)
	require.Equal(t, 2, b.rq.Free())

	before := string(b.rq.ring)
	require.ErrorContains(t, b.rq.PostRecv(&RecvWR{SGE: make([]SGE, 5)}), "5 SGEs in a receive, at most 4")
	require.ErrorContains(t, b.rq.PostRecv(&RecvWR{SGE: sge(1<<31 + 1)}), "at most 2147483648")
	require.Equal(t, before, string(b.rq.ring))

	n, err := b.rq.PostRecvList([]RecvWR{{ID: 4}, {ID: 5}, {ID: 6}})
	require.ErrorIs(t, err, ErrFull)
	require.Equal(t, 2, n)
	for i := range uint16(4) {
		b.dev.recv(i+2, 0)
	}
	require.Equal(t, []uint64{2, 3, 4, 5}, ids(b.poll()))
	b.rq.Reset()
	require.Equal(t, 4, b.rq.Free())
	require.Zero(t, b.rq.record.Observe())
}

// Clean removes the CQEs of one QP and keeps the others in order, also across the end of the
// ring. The device can continue after them.
func TestClean(t *testing.T) {
	b := newBench(t, 8, nil)
	other, err := b.table.Alloc()
	require.NoError(t, err)
	rq, err := NewRQ(RQConfig{Ring: make([]byte, 8*64), Stride: 64, Record: b.record})
	require.NoError(t, err)
	b.table.Set(other, &QP{RQ: rq, QPN: 2})
	for i := range uint64(8) {
		require.NoError(t, rq.PostRecv(&RecvWR{ID: 100 + i}))
		require.NoError(t, b.sq.Post(&SendWR{ID: i, Op: OpNop, Flags: Signaled}))
	}
	b.sq.Ring()
	rq.Ring()
	require.Equal(t, 8, b.dev.step())
	require.Equal(t, 8, len(b.poll()))

	// From here on the device writes entries 8..15, and then those of the next lap.
	n := uint16(0)
	others := func() {
		d := *b.dev
		d.index, d.qpn = other, 2
		d.recv(n, uint32(n))
		n++
		b.dev.pi = d.pi
	}
	mine := func() { b.dev.recv(0, 0) }
	for _, f := range []func(){others, mine, mine, others, mine, others, others, mine, others, mine} {
		f()
	}
	require.Equal(t, 5, b.cq.Clean(b.index, b.qp))
	require.Equal(t, uint32(13), b.cq.ciWord.Observe())
	others()
	got := b.poll()
	require.Equal(t, []uint64{100, 101, 102, 103, 104, 105}, ids(got))
	for i, c := range got {
		require.Equal(t, uint32(i), c.ByteLen)
	}
	require.Zero(t, b.cq.Clean(b.index, b.qp))
	others()
	require.Zero(t, b.cq.Clean(other, b.qp), "another QP with that index")
	require.Len(t, b.poll(), 1)
	stale, bad := b.cq.Skipped()
	require.Zero(t, stale+bad)
}

func TestNewCQ(t *testing.T) {
	m := newMemory(t, 8192)
	good := CQConfig{Ring: m.take(256), EntrySize: 64, Record: m.take(8), Table: new(Table)}
	for i := range good.Ring {
		good.Ring[i] = 0x5a
	}
	_, err := NewCQ(good)
	require.NoError(t, err)
	require.Equal(t, byte(0xf0), good.Ring[63])
	require.Zero(t, good.Ring[62])
	for says, spoil := range map[string]func(*CQConfig){
		"CQEs of 32 bytes":     func(c *CQConfig) { c.EntrySize = 32 },
		"3; a power of two":    func(c *CQConfig) { c.Ring = c.Ring[:192] },
		"100 bytes, not whole": func(c *CQConfig) { c.Ring = c.Ring[:100] },
		"record of 4 bytes":    func(c *CQConfig) { c.Record = c.Record[:4] },
		"record that does not": func(c *CQConfig) { c.Record = c.Ring[2:10] },
		"ring that does not":   func(c *CQConfig) { c.Ring = make([]byte, 193)[1:129] },
		"register of 4 bytes":  func(c *CQConfig) { c.Register = c.Ring[:4] },
		"without a table":      func(c *CQConfig) { c.Table = nil },
		"0x1000000":            func(c *CQConfig) { c.CQN = 1 << 24 },
	} {
		bad := good
		spoil(&bad)
		_, err := NewCQ(bad)
		require.ErrorContains(t, err, says)
	}
}

// Alloc returns the lowest free index, and a full table grows while pollers use it.
func TestTable(t *testing.T) {
	var table Table
	require.Nil(t, table.find(0))
	qps := make([]*QP, 100)
	for i := range qps {
		got, err := table.Alloc()
		require.NoError(t, err)
		require.Equal(t, uint32(i), got)
		require.Nil(t, table.find(got), "reserved, but nobody's")
		qps[i] = &QP{QPN: uint32(i)}
		table.Set(got, qps[i])
	}
	for i, qp := range qps {
		require.Same(t, qp, table.find(uint32(i)))
	}
	table.Free(40)
	table.Free(7)
	require.Nil(t, table.find(7))
	got, err := table.Alloc()
	require.NoError(t, err)
	require.Equal(t, uint32(7), got)

	table.used = make([]bool, 1<<24)
	for i := range table.used {
		table.used[i] = true
	}
	_, err = table.Alloc()
	require.ErrorContains(t, err, "16777216 user indices")
}
