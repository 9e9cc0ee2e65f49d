package hostpath

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// A pair is two queues with the same posted work. The completions of one queue are
// compressed, those of the other are not.
type pair struct {
	plain, packed *bench
	format        cqe.MiniFormat
}

// newPair makes the queues with 1<<log CQEs, and room for the same number of work requests.
func newPair(t testing.TB, log uint, f cqe.MiniFormat) *pair {
	t.Helper()
	p := &pair{newBench(t, 64, nil), newBench(t, 64, nil), f}
	for _, b := range []*bench{p.plain, p.packed} {
		m := newMemory(t, 64<<log+64)
		ring := m.take(64 << log)
		var err error
		b.cq, err = NewCQ(CQConfig{
			Ring: ring, EntrySize: 64, Record: b.cqRecord, Table: b.table, Compressed: b == p.packed, MiniFormat: f,
		})
		require.NoError(t, err)
		b.dev.cq, b.dev.log = ring, log
	}
	return p
}

// write makes both devices publish the completions. One of them compresses completions that
// can share a title. It does not change slots after a title that contain no array of minis.
func (p *pair) write(list []cqe.CQE) {
	for i := range list {
		var e [cqe.Size]byte
		list[i].Put(&e)
		p.plain.dev.write(&e)
	}
	for len(list) > 0 {
		list = list[p.compress(list):]
	}
}

// compress publishes completions from the beginning of a list: all that can share a title,
// but at least one. It returns how many it has published.
func (p *pair) compress(list []cqe.CQE) (n int) {
	d := p.packed.dev
	slot := func(index uint64) *shm.Block { return shm.BlockAt(d.cq, cqe.Slot(index, d.log)*cqe.Size) }
	x := cqe.Compress(&list[0], d.pi, d.log, p.format)
	var minis []cqe.Mini
	for n < len(list) {
		m, ok := x.Add(&list[n])
		if !ok {
			break
		}
		minis = append(minis, m)
		n++
	}
	if n < 2 {
		var e [cqe.Size]byte
		list[0].Put(&e)
		d.write(&e)
		return 1
	}
	for i, m := range minis {
		slots, at := cqe.MiniPlace(i)
		m.Put((*[cqe.MiniSize]byte)(slot(d.pi + uint64(slots))[at*cqe.MiniSize:]))
	}
	var e [cqe.Size]byte
	title := x.Title()
	title.Put(&e)
	slot(d.pi).Publish(&e)
	d.pi += uint64(n)
	return n
}

// poll polls both queues for at most n completions and compares them.
func (p *pair) poll(t require.TestingT, n int) int {
	want, got := make([]Completion, n), make([]Completion, n)
	want, got = want[:p.plain.cq.Poll(want)], got[:p.packed.cq.Poll(got)]
	require.Equal(t, want, got)
	require.Equal(t, p.plain.cq.ciWord.Observe(), p.packed.cq.ciWord.Observe(), "consumer index")
	ps, pb := p.plain.cq.Skipped()
	cs, cb := p.packed.cq.Skipped()
	require.Equal(t, [2]uint64{ps, pb}, [2]uint64{cs, cb}, "skipped")
	return len(got)
}

// A compressed queue reports what one without compression does: in rings of any
// size, across their end, for many laps, and with little room in Poll.
func TestCompressed(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		log := rapid.UintRange(1, 6).Draw(r, "log")
		p := newPair(t, log, cqe.MiniFormat(rapid.Uint8Range(0, 4).Draw(r, "format")))
		start := rapid.SampledFrom([]uint64{0, 1<<log - 1, 1<<24 - 3}).Draw(r, "first index")
		for _, b := range []*bench{p.plain, p.packed} {
			b.cq.ci, b.dev.pi = start, start
			for i := range uint64(1) << log { // as the previous lap has left the ring
				o := cqe.MakeOpOwn(cqe.Invalid, cqe.FormatPlain, false, 0)
				if start > 0 {
					o = cqe.MakeOpOwn(cqe.Req, cqe.FormatPlain, false, cqe.Owner(start+i, log)^1)
				}
				b.cq.entry(start + i)[cqe.OffOpOwn] = uint8(o)
			}
		}
		sent, received, id := uint64(0), uint16(0), uint64(0)
		for range rapid.IntRange(1, 40).Draw(r, "rounds") {
			room := 1<<log - int(p.plain.dev.pi-p.plain.cq.ci)
			n := rapid.IntRange(0, min(room, 32)).Draw(r, "completions")
			receives := rapid.Bool().Draw(r, "receives")
			opcodes := []wqe.Opcode{wqe.OpRDMAWrite, wqe.OpRDMARead, wqe.OpSendImm, wqe.OpNop}
			if rapid.Bool().Draw(r, "one opcode") { // then Poll takes sessions whole
				i := rapid.IntRange(0, len(opcodes)-1).Draw(r, "which")
				opcodes = opcodes[i : i+1]
			}
			list := make([]cqe.CQE, 0, n)
			for range n {
				c := cqe.CQE{
					SRQNUIdx: p.plain.index, QPN: benchQPN, Timestamp: 7, ByteCount: rapid.Uint32().Draw(r, "bytes"),
					OpOwn: cqe.MakeOpOwn(cqe.Req, cqe.FormatPlain, rapid.IntRange(0, 9).Draw(r, "solicited") == 0, 0),
				}
				if receives {
					c.OpOwn = cqe.OpOwn(cqe.RespSend)<<4 | c.OpOwn&cqe.SolicitedBit
					c.Counter = received
					received++
				} else {
					c.Counter = uint16(sent)
					c.WQEOpcode = uint8(rapid.SampledFrom(opcodes).Draw(r, "opcode"))
					sent++
				}
				c.OpOwn |= cqe.OpOwn(cqe.Owner(p.plain.dev.pi+uint64(len(list)), log))
				list = append(list, c)
				id++
				for _, b := range []*bench{p.plain, p.packed} {
					if receives {
						require.NoError(t, b.rq.PostRecv(&RecvWR{ID: id}))
						b.rq.Ring()
					} else {
						require.NoError(t, b.sq.Post(&SendWR{ID: id, Op: OpNop, Flags: Signaled}))
						b.sq.Ring()
					}
				}
			}
			p.write(list)
			for p.poll(r, rapid.IntRange(1, 20).Draw(r, "room")) > 0 && rapid.Bool().Draw(r, "more") {
			}
			for p.plain.dev.pi-p.plain.cq.ci > 32 || p.plain.sq.Free() < 32 || p.plain.rq.Free() < 32 {
				require.Positive(t, p.poll(r, 20))
			}
		}
		for p.poll(r, 20) > 0 {
		}
		require.Equal(t, p.plain.dev.pi, p.packed.cq.ci, "everything was polled")
	})
}

// The bytes of this session are written by hand, in the layout of mlx5: a title for ten
// receives of lap 1 in a ring of 16 entries. The first array follows the title, and the
// second array is 8 slots after the first.
func TestCompressedBytes(t *testing.T) {
	p := newPair(t, 4, cqe.MiniChecksum)
	b := p.packed
	const first = 16 + 2 // in lap 1, where the owner bit is 1
	b.cq.ci, b.dev.pi = first, first
	for id := range uint64(10) {
		require.NoError(t, b.rq.PostRecv(&RecvWR{ID: id, SGE: sge(64)}))
	}
	b.rq.Ring()
	put := func(slot int, digits string) {
		raw, err := hex.DecodeString(strings.NewReplacer(" ", "", "\n", "", "\t", "").Replace(digits))
		require.NoError(t, err)
		require.Len(t, raw, 64)
		copy(b.dev.cq[slot*64:], raw)
	}
	put(3, `aaaa0000 00000001  aaaa0000 00000002  aaaa0000 00000003  aaaa0000 00000004
		aaaa0000 00000005  aaaa0000 00000006  aaaa0000 00000007  aaaa0000 00000008`)
	put(10, `aaaa0000 00000009  aaaa0000 0000000a  ffffffff ffffffff  ffffffff ffffffff
		ffffffff ffffffff  ffffffff ffffffff  ffffffff ffffffff  ffffffff ffffffff`)
	put(2, `00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000
		00000000 00000000 00000000 0000000a 00000000 00000055 00004711 0000 00 2d`)
	var c [16]Completion
	require.Equal(t, 4, b.cq.Poll(c[:4]), "as many as there is room for")
	require.Equal(t, 6, b.cq.Poll(c[4:]))
	for i := range c[:10] {
		require.NoError(t, c[i].Err())
		require.EqualValues(t, i, c[i].ID)
		require.EqualValues(t, i+1, c[i].ByteLen)
		require.EqualValues(t, 0x55, c[i].Timestamp)
	}
	require.EqualValues(t, first+10, b.cq.ciWord.Observe())
	for slot := 2; slot < 12; slot++ { // there are no entries of the next lap yet
		require.False(t, cqe.Valid(cqe.OpOwn(b.dev.cq[slot*64+63]), uint64(32+slot), 4), "slot %d", slot)
	}
	require.Zero(t, b.cq.Poll(c[:]))
}

// A session of a broken device names work that was not posted, or has gaps between its receives. Poll
// reports, skips and frees what it does for ordinary entries.
func TestCompressedOfOtherWork(t *testing.T) {
	for name, c := range map[string]struct {
		format   cqe.MiniFormat
		receives bool
		counters []uint16
	}{
		"sends beyond the last":               {counters: []uint16{0, 2, 3}},
		"a send within another":               {counters: []uint16{1, 2}},
		"receives beyond the last":            {receives: true, counters: []uint16{0, 1, 2, 3, 4}},
		"receives that all are beyond":        {receives: true, counters: []uint16{9, 10}},
		"receives with indices of their own":  {cqe.MiniChecksumStride, true, []uint16{0, 2, 3}},
		"indices of their own, not in order":  {cqe.MiniFlowTagStride, true, []uint16{2, 1, 3}},
		"receives beyond, with their indices": {cqe.MiniHeadersStride, true, []uint16{2, 7}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, 4, c.format)
			var list []cqe.CQE
			for i, counter := range c.counters {
				e := cqe.CQE{SRQNUIdx: p.plain.index, QPN: benchQPN, Counter: counter, Timestamp: 7, ByteCount: uint32(i)}
				e.WQEOpcode = uint8(wqe.OpRDMAWrite)
				if c.receives {
					e.WQEOpcode, e.OpOwn = 0, cqe.OpOwn(cqe.RespSend)<<4
				}
				list = append(list, e)
			}
			for _, b := range []*bench{p.plain, p.packed} {
				for id := range uint64(4) {
					require.NoError(t, b.rq.PostRecv(&RecvWR{ID: id}))
				}
				b.rq.Ring()
				// The first WQE takes the blocks 0 and 1, the second block 2.
				require.NoError(t, b.sq.Post(&SendWR{ID: 5, Op: OpWrite, Flags: Signaled, Data: make([]byte, 60)}))
				require.NoError(t, b.sq.Post(&SendWR{ID: 6, Op: OpWrite, Flags: Signaled, SGE: sge(8)}))
				b.sq.Ring()
				b.sq.slots[3] = noted(7, 1, OpWrite) // left over from an earlier lap
			}
			p.write(list)
			require.Equal(t, cqe.FormatCompressed, cqe.OpOwn(p.packed.dev.cq[cqe.OffOpOwn]).Format())
			p.poll(t, 16)
			require.Equal(t, p.plain.sq.Done(), p.packed.sq.Done())
			require.Equal(t, p.plain.rq.freed.Observe(), p.packed.rq.freed.Observe())
		})
	}
}

// Clean and Resize handle single completions, not whole sessions.
func TestCompressedCleanAndResize(t *testing.T) {
	for _, resize := range []bool{false, true} {
		p := newPair(t, 5, cqe.MiniHash)
		var list []cqe.CQE
		for i := range 20 {
			for _, b := range []*bench{p.plain, p.packed} {
				require.NoError(t, b.sq.Post(&SendWR{ID: uint64(i), Op: OpNop, Flags: Signaled}))
				b.sq.Ring()
			}
			list = append(list, cqe.CQE{SRQNUIdx: p.plain.index, QPN: benchQPN, Counter: uint16(i)})
		}
		p.write(list)
		require.Equal(t, 3, p.poll(t, 3))
		for _, b := range []*bench{p.plain, p.packed} {
			if !resize {
				require.Equal(t, 17, b.cq.Clean(b.index, b.qp))
				continue
			}
			m := newMemory(t, 64*64)
			require.NoError(t, b.cq.Resize(m.take(64*64), func() error {
				e := cqe.CQE{OpOwn: cqe.MakeOpOwn(cqe.ResizeCQ, cqe.FormatPlain, false, cqe.Owner(b.dev.pi, b.dev.log))}
				var raw [cqe.Size]byte
				e.Put(&raw)
				b.dev.write(&raw)
				return nil
			}))
		}
		left := 0
		if resize {
			left = 17
		}
		require.Equal(t, left, p.poll(t, 20))
	}
}

// A title that does not begin a valid session is a completion that makes no sense. So is any
// title in a queue without compression.
func TestCompressedNonsense(t *testing.T) {
	for _, c := range []struct {
		name       string
		compressed bool
		entries    uint32
	}{{"no entries", true, 0}, {"more than the ring has", true, 33}, {"not asked for", false, 2}} {
		t.Run(c.name, func(t *testing.T) {
			p := newPair(t, 5, cqe.MiniHash)
			b := p.plain
			if c.compressed {
				b = p.packed
			}
			require.NoError(t, b.sq.Post(&SendWR{ID: 5, Op: OpNop, Flags: Signaled}))
			b.sq.Ring()
			e := cqe.CQE{SRQNUIdx: b.index, QPN: benchQPN, ByteCount: c.entries, OpOwn: cqe.MakeOpOwn(cqe.Req, cqe.FormatCompressed, false, 0)}
			var raw [cqe.Size]byte
			e.Put(&raw)
			b.dev.write(&raw)
			got := b.poll()
			require.Equal(t, []uint64{5}, ids(got))
			require.Error(t, got[0].Err())
			require.EqualValues(t, 1, b.cq.ci)
		})
	}
}

func TestCompressedConfig(t *testing.T) {
	m := newMemory(t, 4096)
	ring, record := m.take(1024), m.take(8)
	for name, c := range map[string]CQConfig{
		"128 bytes": {EntrySize: 128, Compressed: true},
		"collapsed": {EntrySize: 64, Compressed: true, Collapsed: true},
		"format 5":  {EntrySize: 64, Compressed: true, MiniFormat: 5},
	} {
		c.Ring, c.Record, c.Table = ring, record, new(Table)
		_, err := NewCQ(c)
		require.ErrorContains(t, err, "compressed", name)
	}
}

// Expanding allocates no memory.
func TestCompressedAllocates(t *testing.T) {
	p := newPair(t, 5, cqe.MiniHash)
	b := p.packed
	var c [8]Completion
	got, rounds := 0, 0
	allocs := testing.AllocsPerRun(50, func() {
		for range 4 {
			_ = b.sq.Post(&SendWR{Op: OpNop, Flags: Signaled})
		}
		b.sq.Ring()
		pi := b.dev.pi
		title := cqe.CQE{
			SRQNUIdx: b.index, QPN: benchQPN, ByteCount: 4,
			OpOwn: cqe.MakeOpOwn(cqe.Req, cqe.FormatCompressed, false, cqe.Owner(pi, 5)),
		}
		for i := range 4 {
			m := cqe.Mini{Info: uint32(uint16(b.sq.next-4)+uint16(i)) << 16}
			m.Put((*[8]byte)(b.cq.entry(pi + 1)[8*i:]))
		}
		title.Put((*[64]byte)(b.cq.entry(pi)))
		b.dev.pi += 4
		got += b.cq.Poll(c[:])
		rounds++
	})
	require.Zero(t, allocs)
	require.Equal(t, 4*rounds, got)
}
