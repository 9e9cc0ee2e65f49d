package include

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/accel"
	"github.com/nicless/nicless/wqe"
)

// This test checks a claim of the project: the same request leaves the same bytes in the ring,
// the record and the register, for each poster. The posters are a host program, one of
// many posters that share the queue, a lane, a warp, C and C++.
//
// Four posters of this program each have a queue pair of a real engine, which executes what
// they post. C and C++ each repeat every request in memory of their own.

// A request is work to post, for hosts, for kernels and for C.
type request struct {
	name string
	host []nicless.SendWR
	lane func(t *accel.Thread, q *accel.Queue) // nil if a lane cannot post it
	// Executed by as many lanes as host has requests; nil if a warp cannot post it.
	warp func(t *accel.Thread, q *accel.Queue)
	inC  []post
}

func TestSameBytes(t *testing.T) {
	l := newSameness(t)
	requests := l.requests()
	for _, p := range l.posters {
		t.Run(p.name, func(t *testing.T) {
			var followers []*follower
			for _, language := range languages {
				t.Run("begin "+language.name, func(st *testing.T) {
					followers = append(followers, newFollower(t, language.build(st, "golden"), language.name, p.qp))
				})
			}
			require.NotEmpty(t, followers)
			checked := 0
			for i := range requests {
				r := &requests[i]
				if !p.post(t, p, r) {
					continue
				}
				checked++
				for _, f := range followers {
					f.compare(t, r, p.qp)
				}
			}
			require.Greater(t, checked, p.least)
			l.finish(t, p)
		})
	}
}

// A poster has a way to post, and a queue pair to post to.
type poster struct {
	name  string
	qp    *nicless.QP
	cq    *nicless.CQ
	queue *accel.Queue
	least int // it posts more requests than this
	post  func(t *testing.T, p *poster, r *request) (posted bool)
}

type sameness struct {
	ctx       *nicless.Context
	pd        *nicless.PD
	near, far *nicless.MR
	stream    *accel.Stream
	posters   []*poster
}

func newSameness(t *testing.T) *sameness {
	t.Helper()
	ctx, err := nicless.Open(nicless.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, ctx.Close()) })
	l := &sameness{ctx: ctx}
	l.pd, err = ctx.AllocPD()
	require.NoError(t, err)
	l.near, err = l.pd.RegisterMemory(4096, nicless.FullAccess)
	require.NoError(t, err)
	l.far, err = l.pd.RegisterMemory(4096, nicless.FullAccess)
	require.NoError(t, err)
	dev, err := accel.New(accel.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, dev.Close()) })
	l.stream, err = dev.NewStream()
	require.NoError(t, err)

	host := func(t *testing.T, p *poster, r *request) bool {
		_, err := p.qp.PostSendList(r.host)
		require.NoError(t, err, r.name)
		return true
	}
	kernel := func(pick func(*request) func(*accel.Thread, *accel.Queue)) func(*testing.T, *poster, *request) bool {
		return func(t *testing.T, p *poster, r *request) bool {
			k, threads := pick(r), 1
			if k == nil {
				return false
			}
			if len(r.host) == accel.WarpSize {
				threads = accel.WarpSize
			}
			grid := accel.Grid{Blocks: 1, Threads: threads}
			require.NoError(t, l.stream.Launch(grid, func(th *accel.Thread) { k(th, p.queue) }))
			require.NoError(t, l.stream.Sync(), r.name)
			return true
		}
	}
	for _, p := range []*poster{
		{name: "host", least: 10, post: host},
		{name: "host beside others", least: 10, post: host},
		{name: "lane", least: 6, post: kernel(func(r *request) func(*accel.Thread, *accel.Queue) { return r.lane })},
		{name: "warp", least: 1, post: kernel(func(r *request) func(*accel.Thread, *accel.Queue) { return r.warp })},
	} {
		l.add(t, p, p.name != "host")
	}
	return l
}

func (l *sameness) add(t *testing.T, p *poster, concurrent bool) {
	t.Helper()
	var err error
	p.cq, err = l.ctx.CreateCQ(nicless.CQConfig{PollOnly: true})
	require.NoError(t, err)
	p.qp, err = l.pd.CreateQP(nicless.QPConfig{SendCQ: p.cq, MaxSendWR: 64, Concurrent: concurrent})
	require.NoError(t, err)
	peer, err := l.pd.CreateQP(nicless.QPConfig{SendCQ: p.cq, RecvCQ: p.cq})
	require.NoError(t, err)
	require.NoError(t, nicless.Pair(p.qp, peer, nicless.Connection{}))
	for i := range 8 {
		require.NoError(t, peer.PostRecv(&nicless.RecvWR{SGE: []nicless.SGE{l.near.SGE(2048+64*i, 64)}}))
	}
	if concurrent {
		x, err := p.qp.Export()
		require.NoError(t, err)
		p.queue, err = accel.NewQueue(x)
		require.NoError(t, err)
	}
	l.posters = append(l.posters, p)
}

// finish waits until the engine has executed everything, and checks that no request failed.
func (l *sameness) finish(t *testing.T, p *poster) {
	t.Helper()
	if p.queue != nil {
		var failed error
		quiet := func(th *accel.Thread) { failed = th.Quiet(p.queue) }
		require.NoError(t, l.stream.Launch(accel.Grid{Blocks: 1, Threads: 1}, quiet))
		require.NoError(t, l.stream.Sync())
		require.NoError(t, failed)
		return
	}
	var c [1]nicless.Completion
	for c[0].ID != lastID {
		_, err := p.cq.Poll(c[:])
		require.NoError(t, err)
		require.NoError(t, c[0].Err())
	}
}

// lastID is the ID of the last request.
const lastID = 99

// requests returns one request of every kind that hosts and C can post. Kernels can post most of them.
func (l *sameness) requests() []request {
	near, far := accel.NewBuffer(l.near), accel.NewBuffer(l.far)
	sge := func(off, n int) []nicless.SGE { return []nicless.SGE{l.near.SGE(off, n)} }
	inC := func(off, n int) []string {
		s := l.near.SGE(off, n)
		return []string{fmt.Sprintf("%d %d %d", s.Addr, s.Length, s.LKey)}
	}
	at := func(off int) uint64 { return l.far.Addr() + uint64(off) }
	key := l.far.RKey()
	const signaled, fenced = 0x08, 0x80
	greeting := []byte("hello, far side of the bus: forty-five bytes.")

	list := []request{
		{
			name: "WRITE of 8 bytes",
			host: []nicless.SendWR{{Op: nicless.Write, Flags: nicless.Signaled, SGE: sge(0, 8), RemoteAddr: at(0), RKey: key}},
			lane: func(t *accel.Thread, q *accel.Queue) { t.Put(q, far.Ref(0), near.Ref(0), 8) },
			warp: func(t *accel.Thread, q *accel.Queue) { t.PutWarp(q, far.Ref(0), near.Ref(0), 8) },
			inC:  []post{{opcode: 0x08, flags: signaled, raddr: at(0), rkey: key, sge: inC(0, 8)}},
		},
		{
			name: "inline WRITE of two blocks",
			host: []nicless.SendWR{{Op: nicless.Write, Flags: nicless.Signaled, Data: greeting, RemoteAddr: at(64), RKey: key}},
			lane: func(t *accel.Thread, q *accel.Queue) { t.PutInline(q, far.Ref(64), greeting) },
			inC:  []post{{opcode: 0x08, flags: signaled, raddr: at(64), rkey: key, data: greeting}},
		},
		{
			name: "READ",
			host: []nicless.SendWR{{Op: nicless.Read, Flags: nicless.Signaled, SGE: sge(128, 16), RemoteAddr: at(0), RKey: key}},
			lane: func(t *accel.Thread, q *accel.Queue) { t.Get(q, near.Ref(128), far.Ref(0), 16) },
			inC:  []post{{opcode: 0x10, flags: signaled, raddr: at(0), rkey: key, sge: inC(128, 16)}},
		},
		{
			name: "SEND",
			host: []nicless.SendWR{{Op: nicless.Send, Flags: nicless.Signaled, SGE: sge(0, 32)}},
			lane: func(t *accel.Thread, q *accel.Queue) { t.Send(q, near.Ref(0), 32) },
			inC:  []post{{opcode: 0x0a, flags: signaled, sge: inC(0, 32)}},
		},
		{
			name: "FETCH_ADD",
			host: []nicless.SendWR{{Op: nicless.FetchAdd, Flags: nicless.Signaled, SGE: sge(8, 8), RemoteAddr: at(256), RKey: key, SwapAdd: 3}},
			lane: func(t *accel.Thread, q *accel.Queue) { t.FetchAdd(q, far.Ref(256), 3, near.Ref(8)) },
			inC:  []post{{opcode: 0x12, flags: signaled, raddr: at(256), rkey: key, swap: 3, sge: inC(8, 8)}},
		},
		{
			name: "COMPARE_SWAP behind a fence",
			host: []nicless.SendWR{{
				Op: nicless.CompareSwap, Flags: nicless.Signaled | nicless.Fence, SGE: sge(16, 8), RemoteAddr: at(264), RKey: key, SwapAdd: 7, Compare: 0,
			}},
			lane: func(t *accel.Thread, q *accel.Queue) {
				t.Fence()
				t.CompareSwap(q, far.Ref(264), 0, 7, near.Ref(16))
			},
			inC: []post{{opcode: 0x11, flags: signaled | fenced, raddr: at(264), rkey: key, swap: 7, sge: inC(16, 8)}},
		},
		{
			name: "WRITE_IMM",
			host: []nicless.SendWR{{Op: nicless.WriteImm, SGE: sge(0, 8), RemoteAddr: at(8), RKey: key, Imm: 0x01020304}},
			inC:  []post{{opcode: 0x09, imm: 0x01020304, raddr: at(8), rkey: key, sge: inC(0, 8)}},
		},
		{
			name: "SEND_IMM of three pieces, solicited",
			host: []nicless.SendWR{{
				Op: nicless.SendImm, Flags: nicless.Solicited, Imm: 5,
				SGE: []nicless.SGE{l.near.SGE(0, 8), l.near.SGE(64, 16), l.near.SGE(256, 1)},
			}},
			inC: []post{{opcode: 0x0b, flags: 0x02, imm: 5, sge: []string{inC(0, 8)[0], inC(64, 16)[0], inC(256, 1)[0]}}},
		},
		{
			name: "NOP",
			host: []nicless.SendWR{{Op: nicless.Nop}},
			inC:  []post{{opcode: 0}},
		},
		{name: "32 WRITEs of 8 bytes", warp: func(t *accel.Thread, q *accel.Queue) {
			t.PutWarp(q, far.Ref(8*t.Lane()), near.Ref(8*t.Lane()), 8)
		}},
		{
			name: "WRITE of 8 bytes at the end",
			host: []nicless.SendWR{{ID: lastID, Op: nicless.Write, Flags: nicless.Signaled, SGE: sge(8, 8), RemoteAddr: at(8), RKey: key}},
			lane: func(t *accel.Thread, q *accel.Queue) { t.Put(q, far.Ref(8), near.Ref(8), 8) },
			warp: func(t *accel.Thread, q *accel.Queue) { t.PutWarp(q, far.Ref(8), near.Ref(8), 8) },
			inC:  []post{{opcode: 0x08, flags: signaled, raddr: at(8), rkey: key, sge: inC(8, 8)}},
		},
	}
	for i := range list {
		if r := &list[i]; r.host == nil {
			for k := range accel.WarpSize {
				r.host = append(r.host, nicless.SendWR{Op: nicless.Write, SGE: sge(8*k, 8), RemoteAddr: at(8 * k), RKey: key})
				r.inC = append(r.inC, post{opcode: 0x08, raddr: at(8 * k), rkey: key, sge: inC(8*k, 8)})
			}
			r.host[accel.WarpSize-1].Flags = nicless.Signaled
			r.inC[accel.WarpSize-1].flags = signaled
		}
	}
	return list
}

// A follower repeats in C or C++ what a poster has posted.
type follower struct {
	*talker
	name string
}

func newFollower(t *testing.T, path, name string, qp *nicless.QP) *follower {
	t.Helper()
	f := &follower{talk(t, path), name}
	require.Equal(t, []string{"0"}, f.ask("queue %d %d", len(qp.SendRing())/wqe.BlockSize, qp.QPN()))
	return f
}

// compare posts r in the follower's language, and compares ring, record and register with those of qp.
func (f *follower) compare(t *testing.T, r *request, qp *nicless.QP) {
	t.Helper()
	for _, p := range r.inC {
		require.Equal(t, []string{"0"}, f.ask("%s", p.request()), r.name)
	}
	answer := f.ask("ring")
	require.Equal(t, lines(hex.EncodeToString(qp.SendRing())), lines(answer[0]), "%s in %s: ring", r.name, f.name)
	require.Equal(t, hex.EncodeToString(qp.Record()), answer[1], "%s in %s: record", r.name, f.name)
	halves := qp.Register()
	for i, h := range halves {
		require.Equal(t, fmt.Sprintf("%016x", h), answer[2][512*i:512*i+16], "%s in %s: half %d of the register", r.name, f.name, i)
	}
}

// lines breaks hexadecimal digits into blocks of 64 bytes.
func lines(s string) string {
	var b strings.Builder
	for ; len(s) > 128; s = s[128:] {
		b.WriteString(s[:128] + "\n")
	}
	return b.String() + s
}
