package hostpath

import (
	"math/rand/v2"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// anything returns a random work request. Most are of the kinds that layRun posts.
func anything(r *rand.Rand, id uint64) SendWR {
	wr := SendWR{ID: id, Op: OpWrite, Flags: Flags(r.UintN(8) | r.UintN(8)), SGE: sge(1 + r.Uint32N(1<<20)), RemoteAddr: r.Uint64(), RKey: r.Uint32(), Imm: r.Uint32()}
	switch r.UintN(17) {
	case 0, 12:
		wr.Op = OpSend
	case 13, 14:
		wr.Op, wr.SGE, wr.Data = []Op{OpWrite, OpSend, OpSendImm}[r.UintN(3)], nil, make([]byte, 7+r.UintN(7))
		for i := range wr.Data {
			wr.Data[i] = byte(r.Uint32())
		}
	case 15:
		wr.Op = OpSendImm
	case 1:
		wr.Op, wr.SGE, wr.Data = OpWrite, nil, make([]byte, 1+r.UintN(100))
	case 2:
		wr.Op, wr.SGE = OpFetchAdd, sge(8)
	case 3:
		wr.SGE = append(wr.SGE, wr.SGE[0])
	case 4:
		wr.Op, wr.SGE, wr.Bind = OpBindMW, nil, &Bind{Type: 2, Length: 5} // the next WQE needs a fence
	case 5:
		wr.SGE = sge(0)
	case 6, 7:
		wr.Op = OpRead
	case 8:
		wr.Op = OpWriteImm
	}
	return wr
}

// Posting a list gives the same bytes as posting its work requests one by one, and is
// refused at the same request, also when the ring is full. For a run of entries, Poll
// returns the same completions as ParseWC for each entry.
func TestRunsAreTheSame(t *testing.T) {
	full := 0
	for _, most := range []int{wqe.MaxInline, 0, 8, 11, 12} {
		set := func(c *SQConfig) { c.SigAll, c.MaxInline = most%3 == 2, most }
		one, many := newBench(t, 64, set), newBench(t, 64, set)
		r := rand.New(rand.NewPCG(1, 2))
		id := uint64(0)
		for range 2000 {
			list := make([]SendWR, 1+r.UintN(24))
			for i := range list {
				list[i] = anything(r, id)
				id++
			}
			if r.UintN(20) == 0 {
				list[r.UintN(uint(len(list)))].Op = numOps
			}
			want, wantErr := 0, error(nil)
			for ; want < len(list) && wantErr == nil; want++ {
				if wantErr = one.sq.Post(&list[want]); wantErr != nil {
					break
				}
			}
			one.sq.Ring()
			n, err := many.sq.PostList(list)
			require.Equal(t, want, n)
			require.Equal(t, wantErr, err)
			if err == ErrFull {
				full++
			}
			require.Equal(t, one.sq.next, many.sq.next)
			require.Equal(t, one.sq.nextFence, many.sq.nextFence)
			require.Equal(t, one.dev.ring, many.dev.ring)
			require.Equal(t, one.record, many.record)
			if r.UintN(3) > 0 {
				one.dev.step()
				many.dev.step()
			}
			for more := true; more; {
				from := many.cq.ci
				got := make([]Completion, 1+r.UintN(40))
				got = got[:many.cq.Poll(got)]
				more = len(got) > 0
				for i := range got {
					e := many.cq.entry(from + uint64(i))
					want := cqe.ParseWC((*[64]byte)(e))
					if want.Opcode == cqe.WCFromPost {
						want.Opcode = got[i].Opcode
					}
					require.Equal(t, want, got[i].WC)
					require.Equal(t, be.Uint64(e[48:56]), got[i].Timestamp)
					require.Equal(t, many.sq.slots[want.Counter&63].id, got[i].ID)
					var single [1]Completion
					require.Equal(t, 1, one.cq.Poll(single[:]))
					require.Equal(t, single[0], got[i])
				}
				require.Equal(t, one.sq.Done(), many.sq.Done())
			}
		}
	}
	require.Positive(t, full, "the ring was full now and then")
}

// Posting a list of receives gives the same bytes and IDs as posting them one by one, and is refused at
// the same receive, also when the ring is full.
func TestRunsOfPostedReceivesAreTheSame(t *testing.T) {
	for _, sges := range []int{1, 2, 4} {
		queue := func() (*RQ, []byte) {
			record := make([]byte, 8)
			q, err := NewRQ(RQConfig{Ring: make([]byte, 16*sges*wqe.DataSize), Stride: sges * wqe.DataSize, Record: record})
			require.NoError(t, err)
			return q, record
		}
		one, oneRecord := queue()
		many, manyRecord := queue()
		r := rand.New(rand.NewPCG(5, uint64(sges)))
		id, full, refused := uint64(0), 0, 0
		for range 2000 {
			list := make([]RecvWR, 1+r.UintN(12))
			for i := range list {
				list[i] = RecvWR{ID: id, SGE: sge(1 + r.Uint32N(maxLength))}
				list[i].SGE[0].Addr, list[i].SGE[0].LKey = r.Uint64(), r.Uint32()
				switch r.UintN(16) {
				case 0:
					list[i].SGE = nil
				case 1:
					list[i].SGE[0].Length = 0
				case 2:
					list[i].SGE[0].Length = maxLength
				case 3: // too many if sges is 1
					list[i].SGE = append(list[i].SGE, SGE{Addr: r.Uint64(), Length: 5, LKey: 6})
				}
				id++
			}
			if r.UintN(20) == 0 {
				list[r.UintN(uint(len(list)))].SGE = []SGE{{Length: maxLength + 1}}
			}
			want, wantErr := 0, error(nil)
			for ; want < len(list); want++ {
				if wantErr = one.PostRecv(&list[want]); wantErr != nil {
					break
				}
			}
			one.Ring()
			n, err := many.PostRecvList(list)
			require.Equal(t, want, n)
			require.Equal(t, wantErr, err)
			switch {
			case err == ErrFull:
				full++
			case err != nil:
				refused++
			}
			require.Equal(t, one.next, many.next)
			require.Equal(t, one.ring, many.ring)
			require.Equal(t, one.ids, many.ids)
			require.Equal(t, oneRecord, manyRecord)
			freed := one.next - r.Uint64N(one.next-one.freed.Observe()+1)
			one.freed.Publish(freed)
			many.freed.Publish(freed)
		}
		require.Positive(t, full, "the ring was full now and then")
		require.Positive(t, refused)
	}
}

// Poll returns the same completions as ParseWC for each entry of a receive, in polls of every
// length, across the ends of all rings, and whatever is between two entries of the same kind.
func TestRunsOfReceivesAreTheSame(t *testing.T) {
	b := newBench(t, 16, nil)
	r := rand.New(rand.NewPCG(3, 4))
	id, plain := uint64(0), 0
	for range 3000 {
		posted := 1 + r.Uint64N(16)
		for i := range posted {
			require.NoError(t, b.rq.PostRecv(&RecvWR{ID: id + i}))
		}
		b.rq.Ring()
		from := b.dev.pi
		for i := range posted {
			flags, imm, kind := uint32(0), uint32(0), cqe.RespSend
			switch r.UintN(12) {
			case 0:
				kind, imm = cqe.RespSendImm, r.Uint32()
			case 1:
				flags = cqe.FlagsRQPN(cqe.GRHInBuffer, 3, 0x1234)
			case 2:
				imm = 0x10000 // a P_Key in the entry of a datagram
			default:
				flags = cqe.FlagsRQPN(0, 0, 0x77) // the device names the sender
				plain++
			}
			var e [64]byte
			o := cqe.MakeOpOwn(kind, 0, r.UintN(2) == 0, cqe.Owner(b.dev.pi, b.dev.log))
			cqe.PutResp(&e, benchQPN, b.index, flags, imm, uint16(id+i), r.Uint32(), r.Uint64(), o)
			if r.UintN(12) == 0 {
				cqe.PutPath(&e, 0x1122, 0x33)
			}
			b.dev.write(&e)
		}
		for n := uint64(0); n < posted; {
			got := make([]Completion, 1+r.UintN(20))
			got = got[:b.cq.Poll(got)]
			for i := range got {
				e := b.cq.entry(from + n)
				require.Equal(t, Completion{WC: cqe.ParseWC((*[64]byte)(e)), ID: id + n, Timestamp: be.Uint64(e[48:56])}, got[i])
				n++
			}
			require.NotEmpty(t, got)
		}
		id += posted
		require.Equal(t, id, b.rq.freed.Observe())
		require.Zero(t, b.cq.Poll(make([]Completion, 1)))
	}
	require.Greater(t, plain, 10000)
	stale, bad := b.cq.Skipped()
	require.Zero(t, stale+bad)
}

// Receives whose entries name the same sender are taken as one run; those of another sender are
// another run.
func TestRunsOfOneSender(t *testing.T) {
	b := newBench(t, 16, nil)
	for round := range uint64(3) {
		for i := range uint64(8) {
			require.NoError(t, b.rq.PostRecv(&RecvWR{ID: i}))
			var e [64]byte
			flags := cqe.FlagsRQPN(0, 0, uint32(0x77+i/4))
			cqe.PutResp(&e, benchQPN, b.index, flags, 0, uint16(8*round+i), 8, 1, cqe.MakeOpOwn(cqe.RespSend, 0, false, cqe.Owner(b.dev.pi, b.dev.log)))
			b.dev.write(&e)
		}
		b.rq.Ring()
		for i := range uint32(2) {
			dst, e := make([]Completion, 8), b.cq.entry(b.cq.ci)
			require.Equal(t, 4, b.cq.takeRun(dst, e, b.cq.place(b.cq.ci), cqe.Tail(e.ObserveTail())))
			require.Equal(t, 0x77+i, dst[0].SrcQP)
			require.Equal(t, 0x77+i, dst[3].SrcQP)
		}
	}
}

// A run ends at an entry that is of another queue, is of work that was not posted, or is not
// there yet. The loop of Poll continues with that entry.
func TestRunsEnd(t *testing.T) {
	b := newBench(t, 16, nil)
	for i := range uint64(4) {
		require.NoError(t, b.sq.Post(&SendWR{ID: i, Op: OpWrite, SGE: sge(8), Flags: Signaled}))
	}
	b.sq.Ring()
	good := func(counter uint16) {
		var e [64]byte
		cqe.PutReq(&e, benchQPN, b.index, uint8(wqe.OpRDMAWrite), counter, 0, 0, cqe.MakeOpOwn(cqe.Req, 0, false, cqe.Owner(b.dev.pi, b.dev.log)))
		b.dev.write(&e)
	}
	other := func(qpn, index uint32) {
		var e [64]byte
		cqe.PutReq(&e, qpn, index, uint8(wqe.OpRDMAWrite), 0, 0, 0, cqe.MakeOpOwn(cqe.Req, 0, false, cqe.Owner(b.dev.pi, b.dev.log)))
		b.dev.write(&e)
	}
	good(0)
	other(benchQPN+1, b.index)
	good(1)
	other(benchQPN, b.index+1)
	good(9) // this work was not posted
	good(1) // this work was completed already
	good(3)
	require.Equal(t, []uint64{0, 1, 3}, ids(b.poll()))
	stale, bad := b.cq.Skipped()
	require.Equal(t, []uint64{2, 2}, []uint64{stale, bad})
	require.Equal(t, uint64(4), b.sq.Done())
	require.Equal(t, uint64(7), b.cq.ci)
}

// Lists of inline requests are posted in one loop, however few bytes the queue was made for. A request with
// more bytes ends the run.
func TestRunsOfFewInlineBytes(t *testing.T) {
	for most := range mostBytes + 4 {
		b := newBench(t, 64, func(c *SQConfig) { c.MaxInline = most })
		for n := 1; n <= most; n++ {
			list := make([]SendWR, 5)
			for i := range list {
				list[i] = SendWR{Op: OpWrite, Data: make([]byte, n)}
			}
			list[4].Data = make([]byte, most+1)
			want := 0
			if n >= fewestBytes && n <= mostBytes {
				want = 4
			}
			if most < mostBytes || want == 0 {
				require.Equal(t, want, b.sq.layRun(list), "%d of at most %d bytes", n, most)
			}
			b.sq.Reset()
		}
	}
}

// A WQE that is built in place has the bytes of the one that wqe.Builder builds, and the units of
// its block that it does not use stay as they are. The bytes after inline data, up to the end of the
// unit, have no meaning.
func TestInPlaceIsTheSame(t *testing.T) {
	place, builder := newBench(t, 16, nil), newBench(t, 16, nil)
	builder.sq.short = 0
	wipe := func(mem []byte) {
		for i := range mem {
			mem[i] = ^byte(0)
		}
	}
	wipe(place.dev.ring)
	wipe(builder.dev.ring)
	r := rand.New(rand.NewPCG(5, 6))
	data := make([]byte, wqe.MoveInlineMost)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	built := make(map[form]int)
	for id := range uint64(5000) {
		op := []Op{OpWrite, OpWriteImm, OpRead, OpSend, OpSendImm, OpFetchAdd, OpCompareSwap}[r.UintN(7)]
		wr := SendWR{ID: id, Op: op, Flags: Flags(r.UintN(8)), SGE: []SGE{{r.Uint64(), 1 + r.Uint32N(1<<31), r.Uint32()}},
			RemoteAddr: r.Uint64(), RKey: r.Uint32(), Imm: r.Uint32(), SwapAdd: r.Uint64(), Compare: r.Uint64()}
		switch {
		case ops[op].atomic:
			wr.SGE[0].Length = uint32(6 + 2*r.UintN(3)) // 8 is right
		case ops[op].inline && r.UintN(2) == 0:
			wr.SGE, wr.Data = nil, data[:1+r.UintN(wqe.MoveInlineMost)]
		}
		built[place.sq.form(&wr, &ops[op])]++
		err := place.sq.Post(&wr)
		require.Equal(t, builder.sq.Post(&wr), err)
		if n := len(wr.Data); n > 0 && err == nil {
			at := unit1 + wqe.InlineHead + n
			if ops[op].raddr {
				at += unit1
			}
			for _, q := range []*SQ{place.sq, builder.sq} {
				clear(q.block(q.next - 1)[at : (at+wqe.UnitSize-1)/wqe.UnitSize*wqe.UnitSize])
			}
		}
		require.Equal(t, builder.dev.ring, place.dev.ring)
		require.Equal(t, builder.sq.slots, place.sq.slots)
		if err == nil {
			c := wqe.ParseCtrl((*[16]byte)(place.sq.block(place.sq.next - 1)[:]))
			for i, x := range place.sq.block(place.sq.next - 1)[int(c.DS)*wqe.UnitSize:] {
				require.Equal(t, ^byte(0), x, "%v: byte %d after the WQE", op, i)
			}
		}
		for _, b := range []*bench{place, builder} {
			b.sq.Ring()
			b.dev.step()
			b.poll()
			b.drain() // of WQEs without a completion
			wipe(b.sq.block(b.sq.next)[:])
		}
	}
	require.Greater(t, min(built[pointer], built[inline], built[atomic8], built[long]), 400)
}

// In a queue that ignores overruns, the device may overwrite an entry between two reads of the
// poller. That may cost this completion, but no later one.
func TestRunAfterAnOverwrittenEntry(t *testing.T) {
	b := newBench(t, 16, nil)
	put := func(op wqe.Opcode, counter uint16, bytes uint32) {
		var e [64]byte
		cqe.PutReq(&e, benchQPN, b.index, uint8(op), counter, bytes, 5, cqe.MakeOpOwn(cqe.Req, 0, false, cqe.Owner(b.dev.pi, b.dev.log)))
		b.dev.write(&e)
	}
	for i := range uint64(8) {
		require.NoError(t, b.sq.Post(&SendWR{ID: i, Op: OpWrite, SGE: sge(8), Flags: Signaled}))
	}
	b.sq.Ring()
	put(wqe.OpRDMAWrite, 0, 0)
	e := b.cq.entry(0)
	tail := cqe.Tail(e.ObserveTail())
	b.dev.pi += 1<<b.cq.log - 1
	put(wqe.OpRDMARead, 1, 77) // one lap later, in the same slot
	b.cq.takeRun(make([]Completion, 1), e, b.cq.place(0), tail)
	b.cq.ci = 1
	b.dev.pi = 1
	put(wqe.OpRDMAWrite, 2, 0)
	got := b.poll()
	require.Len(t, got, 1)
	require.Equal(t, cqe.ParseWC((*[64]byte)(b.cq.entry(1))), got[0].WC)
}

// Of entries of 128 bytes, a run reads the second halves, also across the end of the ring. Here the
// first halves would pass for completions of other work.
func TestRunsOfWideEntries(t *testing.T) {
	const entries = 8
	b := newBench(t, 16, nil)
	ring := newMemory(t, entries*cqe.Size128).take(entries * cqe.Size128)
	var err error
	b.cq, err = NewCQ(CQConfig{Ring: ring, EntrySize: cqe.Size128, Record: b.cqRecord, Table: b.table})
	require.NoError(t, err)
	for id := uint64(0); id < 5*entries; id += 3 {
		for i := range uint64(3) {
			require.NoError(t, b.sq.Post(&SendWR{ID: id + i, Op: OpWrite, SGE: sge(8), Flags: Signaled}))
		}
		b.sq.Ring()
		for i := range uint64(3) {
			for half, counter := range []uint64{id + (i+1)%3, id + i} {
				var e [64]byte
				cqe.PutReq(&e, benchQPN, b.index, uint8(wqe.OpRDMAWrite), uint16(counter), 0, 5, cqe.MakeOpOwn(cqe.Req, 0, false, cqe.Owner(id+i, 3)))
				copy(ring[(id+i)%entries*cqe.Size128+uint64(half)*64:], e[:])
			}
		}
		require.Equal(t, []uint64{id, id + 1, id + 2}, ids(b.poll()))
	}
}
