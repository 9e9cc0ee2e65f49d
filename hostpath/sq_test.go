package hostpath

import (
	"bytes"
	"math"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestFull(t *testing.T) {
	b := newBench(t, 4, nil)
	long := SendWR{ID: 9, Op: OpWrite, Data: make([]byte, 40), Flags: Signaled} // 2 blocks
	short := SendWR{ID: 1, Op: OpWrite, SGE: sge(8)}
	for range 3 {
		require.NoError(t, b.sq.Post(&short))
	}
	require.Equal(t, 1, b.sq.Free())
	require.ErrorIs(t, b.sq.Post(&long), ErrFull)
	require.NoError(t, b.sq.Post(&short))
	require.ErrorIs(t, b.sq.Post(&short), ErrFull)
	require.ErrorIs(t, b.sq.Post(&SendWR{Op: OpWrite, Data: []byte{1}}), ErrFull)

	b.sq.Ring()
	require.Equal(t, 4, b.dev.step())
	require.Empty(t, b.poll(), "nothing was signaled")
	require.ErrorIs(t, b.sq.Post(&short), ErrFull, "done, but no completion says so")
}

// One completion frees the blocks of all earlier WQEs, signaled or not.
func TestUnsignaledFreed(t *testing.T) {
	b := newBench(t, 8, nil)
	for lap := range 3 {
		n, err := b.sq.PostList([]SendWR{
			{ID: 1, Op: OpWrite, SGE: sge(8)},
			{ID: 2, Op: OpSend, Data: make([]byte, 100)}, // 2 blocks
			{ID: 3, Op: OpFetchAdd, SGE: sge(8)},
			{ID: 4, Op: OpLocalInval, Flags: Signaled}, // 2 blocks
			{ID: 5, Op: OpNop},
		})
		require.NoError(t, err)
		require.Equal(t, 5, n)
		require.Equal(t, 5, b.dev.step())
		require.Equal(t, []uint64{4}, ids(b.poll()))
		require.Equal(t, 7, b.sq.Free(), "lap %d: all but the last", lap)
		require.NoError(t, b.sq.Post(&SendWR{ID: 6, Op: OpNop, Flags: Signaled}))
		b.sq.Ring()
		b.dev.step()
		require.Equal(t, []uint64{6}, ids(b.poll()))
		require.Equal(t, 8, b.sq.Free())
	}
}

// Each Ring writes the first eight bytes of the last WQE to the register, alternately to its
// two halves. Ring without new WQEs writes nothing.
func TestRing(t *testing.T) {
	b := newBench(t, 16, nil)
	low, high := shm.BE64At(b.uar, 0), shm.BE64At(b.uar, 256)
	record := shm.BE32At(b.record, 4)
	b.sq.Ring()
	require.Zero(t, low.Observe())

	for range 3 {
		require.NoError(t, b.sq.Post(&SendWR{Op: OpWrite, SGE: sge(8)}))
	}
	require.Zero(t, record.Observe(), "posted is not rung")
	require.Zero(t, b.dev.step())
	b.sq.Ring()
	require.Equal(t, uint32(3), record.Observe())
	require.Equal(t, uint64(0x0000_0208_0047_1103), low.Observe())
	require.Zero(t, high.Observe())
	b.sq.Ring()
	require.Zero(t, high.Observe())

	require.NoError(t, b.sq.Post(&SendWR{Op: OpSend, SGE: sge(8)}))
	b.sq.Ring()
	require.Equal(t, uint64(0x0000_030a_0047_1102), high.Observe())
	require.NoError(t, b.sq.Post(&SendWR{Op: OpNop}))
	b.sq.Ring()
	require.Equal(t, uint64(0x0000_0400_0047_1101), low.Observe())
}

func TestRingWithoutHalves(t *testing.T) {
	b := newBench(t, 16, func(c *SQConfig) { c.Register = c.Register[:doorbell.BFHalf] })
	one := shm.BE64At(b.uar, 0)
	for i := range uint64(3) {
		require.NoError(t, b.sq.Post(&SendWR{Op: OpNop}))
		b.sq.Ring()
		require.Equal(t, i<<40|0x471101, one.Observe())
	}
	b = newBench(t, 16, func(c *SQConfig) { c.Register = nil })
	require.NoError(t, b.sq.Post(&SendWR{Op: OpNop}))
	b.sq.Ring()
	require.Equal(t, 1, b.dev.step(), "the record is enough")
}

// A refused work request changes nothing, not even the fence of the next WQE.
func TestRefused(t *testing.T) {
	list := func(n int) []SGE { return make([]SGE, n) }
	for _, c := range []struct {
		name string
		on   Transport
		wr   SendWR
		says string
	}{
		{"unknown operation", RC, SendWR{Op: numOps}, "operation "},
		{"unknown flags", RC, SendWR{Op: OpWrite, Flags: 8}, "0x08"},
		{"READ on UC", UC, SendWR{Op: OpRead, SGE: sge(8)}, "READ on a UC queue"},
		{"atomic on UC", UC, SendWR{Op: OpFetchAdd, SGE: sge(8)}, "FETCH_ADD on a UC queue"},
		{"WRITE on UD", UD, SendWR{Op: OpWrite, SGE: sge(8), To: new(Address)}, "WRITE on a UD queue"},
		{"SEND_INVAL on UD", UD, SendWR{Op: OpSendInval, To: new(Address)}, "SEND_INVAL on a UD queue"},
		{"no AV", UD, SendWR{Op: OpSend, SGE: sge(8)}, "without To"},
		{"too many SGEs", RC, SendWR{Op: OpWrite, SGE: list(5)}, "5 SGEs, at most 4"},
		{"SGE too long", RC, SendWR{Op: OpWrite, SGE: sge(1<<31 + 1)}, "2147483649 bytes, at most 2147483648"},
		{"inline too long", RC, SendWR{Op: OpSend, Data: make([]byte, 101)}, "101 inline bytes, at most 100"},
		{"inline READ", RC, SendWR{Op: OpRead, Data: []byte{1}}, "READ with 1 inline bytes"},
		{"inline atomic", RC, SendWR{Op: OpCompareSwap, SGE: sge(8), Data: []byte{1}}, "COMPARE_SWAP with 1 inline bytes"},
		{"both payloads", RC, SendWR{Op: OpSend, SGE: sge(8), Data: []byte{1}}, "both SGE and Data"},
		{"atomic of 4", RC, SendWR{Op: OpCompareSwap, SGE: sge(4)}, "1 SGEs of 4 bytes; one of 8"},
		{"atomic of two", RC, SendWR{Op: OpFetchAdd, SGE: append(sge(4), sge(4)...)}, "2 SGEs of 8 bytes; one of 8"},
		{"atomic of none", RC, SendWR{Op: OpFetchAdd}, "0 SGEs"},
		{"NOP with SGE", RC, SendWR{Op: OpNop, SGE: sge(8)}, "NOP with 1 SGEs"},
		{"invalidate with data", RC, SendWR{Op: OpLocalInval, Data: []byte{1}}, "LOCAL_INVAL with 1 inline"},
		{"bind without Bind", RC, SendWR{Op: OpBindMW}, "without Bind"},
		{"bind of type 3", RC, SendWR{Op: OpBindMW, Bind: &Bind{Type: 3}}, "type 3"},
		{"masked atomic of 2", RC, SendWR{Op: OpMaskedCompareSwap, SGE: sge(2), Mask: new(Mask)}, "1 SGEs of 2 bytes; one of 4 or 8"},
		{"masked atomic without Mask", RC, SendWR{Op: OpMaskedFetchAdd, SGE: sge(4)}, "without Mask"},
		{"masked atomic on UC", UC, SendWR{Op: OpMaskedFetchAdd, SGE: sge(4), Mask: new(Mask)}, "on a UC queue"},
		{"list without List", RC, SendWR{Op: OpBindList}, "without List"},
		{"empty list", RC, SendWR{Op: OpBindList, List: new(List)}, "list of 0 entries; 1 to 52"},
		{"long list", RC, SendWR{Op: OpBindList, List: &List{Entries: make([]ListEntry, 53)}}, "list of 53 entries; 1 to 52"},
		{"long interleaved list", RC, SendWR{Op: OpBindList, List: &List{Repeat: 1, Entries: make([]ListEntry, 52)}}, "list of 52 entries; 1 to 51"},
		{"list entry of nothing", RC, SendWR{Op: OpBindList, List: &List{Entries: make([]ListEntry, 1)}}, "entry 0 of 0 bytes"},
		{"interleaved entry too long", RC, SendWR{Op: OpBindList, List: &List{Repeat: 1, Entries: []ListEntry{{SGE: sge(1 << 16)[0]}}}}, "65536 bytes; 1 to 65535"},
		{"stride without Repeat", RC, SendWR{Op: OpBindList, List: &List{Entries: []ListEntry{{SGE: sge(1)[0], Stride: 1}}}}, "stride 1"},
		{"list on UD", UD, SendWR{Op: OpBindList}, "BIND_LIST on a UD queue"},
		{"list with data", RC, SendWR{Op: OpBindList, List: &List{Entries: []ListEntry{{SGE: sge(1)[0]}}}, Data: []byte{1}}, "BIND_LIST with 1 inline"},
		{"DUMP of nothing", RC, SendWR{Op: OpDump}, "DUMP with 0 SGEs; 1"},
		{"DUMP of no bytes", UD, SendWR{Op: OpDump, SGE: sge(0)}, "has 0 bytes"},
		{"COPY from one place", RC, SendWR{Op: OpCopy, SGE: sge(8)}, "COPY with 1 SGEs; 2"},
		{"COPY of two lengths", RC, SendWR{Op: OpCopy, SGE: append(sge(8), sge(9)...)}, "COPY of 8 bytes to a place of 9"},
		{"COPY with data", RC, SendWR{Op: OpCopy, SGE: list(2), Data: []byte{1}}, "COPY with 1 inline"},
		{"WAIT on no CQ", RC, SendWR{Op: OpWaitCQ, Queue: 1 << 24}, "0x1000000, more than 24 bits"},
		{"enable with SGE", RC, SendWR{Op: OpSendEnable, SGE: sge(8)}, "SEND_ENABLE with 1 SGEs"},
		{"bind too long", RC, SendWR{Op: OpBindMW, Bind: &Bind{Type: 2, Length: MaxBind + 1}}, "2147483649 bytes, at most 2147483648"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, 16, func(s *SQConfig) { s.Transport, s.MaxSGE, s.MaxInline = c.on, 4, 100 })
			if c.on != UD {
				require.NoError(t, b.sq.Post(&SendWR{ID: 1, Op: OpLocalInval}))
			}
			next, fence := b.sq.next, b.sq.nextFence
			before := string(b.dev.ring)
			require.ErrorContains(t, b.sq.Post(&c.wr), c.says)
			require.Equal(t, before, string(b.dev.ring), "ring")
			require.Equal(t, next, b.sq.next)
			require.Equal(t, fence, b.sq.nextFence)
		})
	}
}

// A WQE never outgrows its ring.
func TestSmallRing(t *testing.T) {
	b := newBench(t, 1, nil)
	require.ErrorContains(t, b.sq.Post(&SendWR{Op: OpWrite, Data: make([]byte, 29)}), "80 bytes, at most 64")
	for lap := range uint64(5) {
		require.NoError(t, b.sq.Post(&SendWR{ID: lap, Op: OpWrite, Data: make([]byte, 28), Flags: Signaled}))
		b.sq.Ring()
		b.dev.step()
		require.Equal(t, []uint64{lap}, ids(b.poll()))
	}
}

func TestPostListStopsAtTheRefused(t *testing.T) {
	b := newBench(t, 16, nil)
	n, err := b.sq.PostList([]SendWR{{ID: 1, Op: OpNop, Flags: Signaled}, {Op: numOps}, {ID: 3, Op: OpNop, Flags: Signaled}})
	require.Error(t, err)
	require.Equal(t, 1, n)
	b.dev.step()
	require.Equal(t, []uint64{1}, ids(b.poll()), "what was posted has been rung")
	n, err = b.sq.PostList(nil)
	require.NoError(t, err)
	require.Zero(t, n)
}

// The longest pointer there can be is 2^31 bytes, which the format writes as 0.
func TestLongestPointer(t *testing.T) {
	for _, n := range []int{1, 2} {
		b := newBench(t, 16, nil)
		list := append(sge(1<<31), sge(5)...)
		require.NoError(t, b.sq.Post(&SendWR{Op: OpSend, SGE: list[:n]}))
		d := wqe.ParseData((*[16]byte)(b.dev.ring[16:]))
		require.Equal(t, uint64(1<<31), d.Length())
		require.False(t, d.Inline())
	}
}

// A WQE has the same bytes whether it is built in place or by the builder, and it is what package wqe calls
// a short WQE.
func TestShortIsLong(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		wr := SendWR{
			Op:         rapid.SampledFrom([]Op{OpWrite, OpWriteImm, OpRead, OpSend, OpSendImm}).Draw(rt, "op"),
			Flags:      Flags(rapid.IntRange(0, 7).Draw(rt, "flags")),
			RemoteAddr: rapid.Uint64().Draw(rt, "raddr"), RKey: rapid.Uint32().Draw(rt, "rkey"), Imm: rapid.Uint32().Draw(rt, "imm"),
		}
		if wr.Op != OpRead && rapid.Bool().Draw(rt, "inline") {
			wr.Data = rapid.SliceOfN(rapid.Byte(), 1, wqe.MoveInlineMost).Draw(rt, "data")
		} else {
			wr.SGE = []SGE{{rapid.Uint64().Draw(rt, "addr"), rapid.Uint32Range(1, 1<<31).Draw(rt, "length"), rapid.Uint32().Draw(rt, "lkey")}}
		}
		short, long := newBench(t, 4, nil), newBench(t, 4, nil)
		long.sq.short = 0
		for _, b := range []*bench{short, long} {
			require.NoError(t, b.sq.Post(&SendWR{Op: OpLocalInval})) // the next WQE needs a fence
			require.NoError(t, b.sq.Post(&wr))
			b.sq.Ring()
		}
		require.Equal(t, long.dev.ring, short.dev.ring)
		require.Equal(t, long.record, short.record)
		require.Equal(t, long.uar, short.uar)

		// The device finds that it is short.
		before, block := uint64(wqe.UnitsBeforeSend), short.dev.ring[2*wqe.BlockSize:]
		if ops[wr.Op].raddr {
			before = wqe.UnitsBeforeMove
		}
		d := wqe.DataWord(be.Uint64(block[before*wqe.UnitSize:]))
		n, ok := wqe.AdmitShort(wqe.OpWord(be.Uint64(block)), d, before, maxLength)
		require.Equal(t, len(wr.Data) > 0, d.Inline())
		require.Equal(t, (uint64(len(wr.Data))+length(wr.SGE))%maxLength, n)
		require.Equal(t, n != 0, ok, "the byte count of 2^31 bytes is 0")
	})
}

// Queues made with wq_signature sign every WQE, even a WQE that wraps around the end of the
// ring.
func TestSignature(t *testing.T) {
	b := newBench(t, 4, func(c *SQConfig) { c.Signature = true })
	for i := range 7 {
		wr := SendWR{ID: uint64(i), Op: OpWrite, Flags: Signaled, Data: make([]byte, 60)}
		wr.Data[59] = byte(i + 1)
		require.NoError(t, b.sq.Post(&wr))
		start := b.sq.lastWQE(b.sq.next) * 64
		w := make([]byte, 96)
		for k := range w {
			w[k] = b.dev.ring[(start+uint64(k))%256]
		}
		require.Equal(t, wqe.Sign(w), w[8], "WQE %d", i)
		b.sq.Ring()
		b.dev.step()
		require.Len(t, b.poll(), 1)
	}
}

func TestBindTypes(t *testing.T) {
	all := uint32(AccessLocalWrite | AccessRemoteWrite | AccessRemoteRead | AccessRemoteAtomic)
	for _, c := range []struct {
		name  string
		bind  Bind
		units int
		flags uint8
		qpn   uint32
		start uint64
	}{
		{"type 1", Bind{Type: 1, RKey: 0xabcd12, Addr: 77, Length: 9, Access: all}, 12, 0x90, 0xffffff12, 77},
		{"type 2", Bind{Type: 2, RKey: 0xabcd12, Addr: 77, Length: 9, Access: all}, 12, 0xb0, 0x00471112, 77},
		{"zero based", Bind{Type: 2, RKey: 1, Addr: 77, Length: 9, Access: all | AccessZeroBased}, 12, 0xb0, 0x00471101, 0},
		{"type 1 closed", Bind{Type: 1, RKey: 3}, 8, 0x90, 0xffffff03, 0},
		{"type 2 closed", Bind{Type: 2, RKey: 3}, 8, 0x98, 0xffffff03, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, 4, nil)
			c.bind.MW = 0x5511
			require.NoError(t, b.sq.Post(&SendWR{Op: OpBindMW, Bind: &c.bind}))
			ctrl := wqe.ParseCtrl((*[16]byte)(b.dev.ring))
			require.Equal(t, uint8(c.units), ctrl.DS)
			require.Equal(t, uint32(0x5511), ctrl.Imm)
			require.Equal(t, c.flags, wqe.ParseUMRCtrl((*[48]byte)(b.dev.ring[16:])).Flags)
			m := wqe.ParseMkeyContext((*[64]byte)(b.dev.ring[64:]))
			require.Equal(t, c.qpn, m.QPNMkey)
			require.Equal(t, c.start, m.StartAddr)
			require.Equal(t, c.bind.Length, m.Len)
			if c.bind.Length != 0 {
				require.Equal(t, uint8(0x78), m.Access)
			}
		})
	}
}

func TestRoCE(t *testing.T) {
	for _, c := range []struct {
		r    RoCE
		port uint16
	}{
		{RoCE{FlowLabel: 0x12345}, 0},
		{RoCE{V2: true, FlowLabel: 0x12345}, 0xe341},
		{RoCE{V2: true, FlowLabel: 0xfffff}, 0xffc0},
		{RoCE{V2: true, UDPPort: 0xc123}, 0xc123},
		{RoCE{V2: true, UDPPort: 0xc123, FlowLabel: 1}, 0xc001},
	} {
		require.Equal(t, c.port, c.r.AV().RLID, "%+v", c.r)
	}
}

func TestNewSQ(t *testing.T) {
	m := newMemory(t, 8192)
	good := SQConfig{Ring: m.take(256), Record: m.take(8), MaxSGE: 1}
	_, err := NewSQ(good)
	require.NoError(t, err)
	for says, spoil := range map[string]func(*SQConfig){
		"3; a power of two":    func(c *SQConfig) { c.Ring = c.Ring[:192] },
		"100 bytes, not whole": func(c *SQConfig) { c.Ring = c.Ring[:100] },
		"0; a power of two":    func(c *SQConfig) { c.Ring = nil },
		"65536; a power":       func(c *SQConfig) { c.Ring = make([]byte, 64<<16) },
		"record of 0 bytes":    func(c *SQConfig) { c.Record = nil },
		"record of 4 bytes":    func(c *SQConfig) { c.Record = c.Record[:4] },
		"record that does not": func(c *SQConfig) { c.Record = c.Ring[1:9] },
		"register of 4 bytes":  func(c *SQConfig) { c.Register = c.Ring[:4] },
		"register that does":   func(c *SQConfig) { c.Register = c.Ring[4:16] },
		"transport 3":          func(c *SQConfig) { c.Transport = 3 },
		"0x1000000":            func(c *SQConfig) { c.QPN = 1 << 24 },
		"-1 bytes of inline":   func(c *SQConfig) { c.MaxInline = -1 },
		"989 bytes of inline":  func(c *SQConfig) { c.MaxInline = 989 },
		"0 SGEs":               func(c *SQConfig) { c.MaxSGE = 0 },
		"63 SGEs":              func(c *SQConfig) { c.MaxSGE = 63 },
	} {
		bad := good
		spoil(&bad)
		_, err := NewSQ(bad)
		require.ErrorContains(t, err, says)
	}
}

// Any sequence of posting, ringing, executing and polling, over many laps of
// ring and index, completes every signaled request once, in order, and frees
// every block.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		size := 1 << rapid.IntRange(1, 5).Draw(rt, "log")
		b := newBench(t, size, nil)
		// The count starts at 0, or just before its low 16 or 32 bits wrap.
		start := rapid.SampledFrom([]uint64{0, math.MaxUint16 - 40, 1<<32 - 3}).Draw(rt, "start")
		b.sq.next, b.sq.seen, b.sq.rung, b.dev.done = start, start, start, start
		b.sq.posted.Publish(start)
		b.sq.freed.Publish(start)
		b.sq.record.Publish(uint32(uint16(start)))

		type wqeOf struct {
			id, blocks uint64
			signaled   bool
		}
		var posted []wqeOf // posted and not completed yet
		used, id := uint64(0), uint64(0)
		for range rapid.IntRange(50, 400).Draw(rt, "steps") {
			switch rapid.SampledFrom([]string{"post", "post", "post", "ring", "step", "poll"}).Draw(rt, "do") {
			case "post":
				id++
				n := rapid.IntRange(0, 120).Draw(rt, "bytes")
				wr := SendWR{ID: id, Op: OpWrite, Data: make([]byte, n)}
				blocks := uint64(1)
				if n > 0 {
					blocks = uint64(2+wqe.InlineUnits(n)+3) / 4
				}
				if rapid.Bool().Draw(rt, "signaled") {
					wr.Flags = Signaled
				}
				err := b.sq.Post(&wr)
				switch {
				case blocks > uint64(size):
					require.ErrorContains(t, err, "at most")
				case used+blocks > uint64(size):
					require.ErrorIs(t, err, ErrFull)
				default:
					require.NoError(t, err)
					used += blocks
					posted = append(posted, wqeOf{id, blocks, wr.Flags != 0})
				}
			case "ring":
				b.sq.Ring()
			case "step":
				b.dev.step()
			case "poll":
				for _, c := range b.poll() {
					require.NoError(t, c.Err())
					for !posted[0].signaled {
						used -= posted[0].blocks
						posted = posted[1:]
					}
					require.Equal(t, posted[0].id, c.ID)
					used -= posted[0].blocks
					posted = posted[1:]
				}
			}
			require.Equal(t, size-int(used), b.sq.Free())
		}
	})
}

// After a failure all later work requests are flushed, even unsignaled ones, each with its
// own ID. After that the queue can be used again.
func TestFlush(t *testing.T) {
	b := newBench(t, 8, nil)
	b.dev.failAt = 2
	_, err := b.sq.PostList([]SendWR{
		{ID: 1, Op: OpWrite, SGE: sge(8)}, {ID: 2, Op: OpWrite, SGE: sge(8), Flags: Signaled},
		{ID: 3, Op: OpSend, Data: make([]byte, 100)}, {ID: 4, Op: OpBindMW, Bind: &Bind{Type: 1}}, {ID: 5, Op: OpRead, SGE: sge(1), Flags: Signaled},
	})
	require.NoError(t, err)
	b.dev.step()
	got := b.poll()
	require.Equal(t, []uint64{2, 3, 4, 5}, ids(got))
	require.NoError(t, got[0].Err())
	var we *cqe.WorkError
	require.ErrorAs(t, got[1].Err(), &we)
	require.Equal(t, cqe.WorkError{QPN: benchQPN, Index: 2, Opcode: 0x0a, Cause: cqe.RemoteAccess, Vendor: 0x88, ID: 3}, *we)
	require.ErrorIs(t, got[2].Err(), cqe.Flush)
	require.ErrorIs(t, got[3].Err(), cqe.Flush)
	require.Equal(t, 8, b.sq.Free())

	b.sq.Reset()
	b.dev.done, b.dev.broken, b.dev.failAt = 0, 0, 0
	require.NoError(t, b.sq.Post(&SendWR{ID: 6, Op: OpNop, Flags: Signaled}))
	b.sq.Ring()
	require.Equal(t, uint32(1), b.sq.record.Observe())
	b.dev.step()
	require.Equal(t, []uint64{6}, ids(b.poll()))
}

// The verbs fence (4) replaces the fence that is needed after a change of keys (1), because
// it includes that fence. A change of keys adds a fence only to the next WQE.
func TestFence(t *testing.T) {
	b := newBench(t, 16, nil)
	flags := func(wr SendWR) uint8 {
		require.NoError(t, b.sq.Post(&wr))
		return b.sq.block(b.sq.lastWQE(b.sq.next))[11]
	}
	inval := SendWR{Op: OpLocalInval}
	require.Equal(t, uint8(0x00), flags(inval))
	require.Equal(t, uint8(0x20), flags(inval))
	require.Equal(t, uint8(0x80), flags(SendWR{Op: OpWrite, SGE: sge(8), Flags: Fence}))
	require.Equal(t, uint8(0x00), flags(SendWR{Op: OpWrite, SGE: sge(8)}))
	flags(inval)
	require.Equal(t, uint8(0x2a), flags(SendWR{Op: OpSend, Data: []byte{1}, Flags: Signaled | Solicited}))
	require.Equal(t, uint8(0x00), flags(SendWR{Op: OpNop}))
}

// A CQE that names a slot in which a WQE began a lap ago, but none begins now, completes
// nothing.
func TestStaleSlot(t *testing.T) {
	b := newBench(t, 4, nil)
	for i := range uint64(4) {
		require.NoError(t, b.sq.Post(&SendWR{ID: i, Op: OpNop, Flags: Signaled}))
	}
	b.sq.Ring()
	b.dev.step()
	require.Len(t, b.poll(), 4)
	// Blocks 0 to 2.
	require.NoError(t, b.sq.Post(&SendWR{ID: 4, Op: OpWrite, Data: make([]byte, 100), Flags: Signaled}))
	b.sq.Ring()
	for counter := range uint16(4) {
		_, s, ok := b.sq.find(4 + counter)
		require.Equal(t, counter == 0, ok, "block %d", counter)
		if ok {
			require.Equal(t, uint64(4), s.id)
		}
	}
}

// A doorbell for each post, in rings of all lengths and for many laps: Ring prefetches blocks
// that are in the ring, and changes none.
func TestRingAfterEachPost(t *testing.T) {
	for size := 1; size <= 64; size *= 2 {
		b := newBench(t, size, nil)
		for i := range 10 * size {
			require.NoError(t, b.sq.Post(&SendWR{ID: uint64(i), Op: OpWrite, SGE: sge(8), Flags: Signaled}))
			want := bytes.Clone(b.dev.ring)
			b.sq.Ring()
			require.Equal(t, want, b.dev.ring)
			require.Equal(t, 1, b.dev.step())
			require.Equal(t, []uint64{uint64(i)}, ids(b.poll()))
		}
	}
}
