package include

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/accel"
	"github.com/nicless/nicless/include/internal/requests"
	"github.com/nicless/nicless/wqe"
)

// This test checks a claim of the project: the same request leaves the same bytes in the ring,
// the record and the register, for each poster. The posters are a host program, one of
// many posters that share the queue, a lane, a warp, C, C++, and a lane of an emulated GPU that
// executes CUDA.
//
// The posters each have a queue pair of a real engine, which executes what they post: those of this program
// have one of package nicless, and those of the rows named DEVX have one that firmware commands have made,
// in a process of their own under nicless run (devx_test.go). C, C++ and CUDA each repeat every request in
// memory of their own.

func TestSameBytes(t *testing.T) {
	l := newSameness(t)
	for _, p := range append(l.posters, devxPosters()...) {
		t.Run(p.name, func(t *testing.T) {
			if p.begin != nil {
				p.begin(t)
			}
			var followers []*follower
			for _, g := range goldens() {
				t.Run("begin "+g.name, func(st *testing.T) {
					followers = append(followers, newFollower(t, g.build(st), g.name, p))
				})
			}
			require.NotEmpty(t, followers)
			checked := 0
			for i := range p.requests {
				r := &p.requests[i]
				if !p.post(t, i, r) {
					continue
				}
				checked++
				for _, f := range followers {
					f.compare(t, r, p.look(t))
				}
			}
			require.Greater(t, checked, p.least)
			p.finish(t)
		})
	}
}

// A poster has a way to post, and a queue pair to post to.
type poster struct {
	name     string
	least    int // it posts more requests than this
	begin    func(t *testing.T)
	requests []requests.Request
	post     func(t *testing.T, i int, r *requests.Request) (posted bool)
	look     func(t *testing.T) look
	finish   func(t *testing.T) // waits until everything is executed, and checks that no request failed
	blocks   int
	qpn      uint32
}

// A look is what a poster has left so far.
type look struct {
	ring, record []byte
	register     [2]uint64 // the first 8 bytes of each half
}

// A local is a queue pair of this program.
type local struct {
	qp    *nicless.QP
	cq    *nicless.CQ
	queue *accel.Queue // nil: the host posts
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

	near := requests.Memory{Addr: l.near.Addr(), LKey: l.near.LKey(), RKey: l.near.RKey()}
	far := requests.Memory{Addr: l.far.Addr(), LKey: l.far.LKey(), RKey: l.far.RKey()}
	all := requests.All(near, far)
	lane := func(r *requests.Request) func(*accel.Thread, *accel.Queue) { return r.Lane }
	warp := func(r *requests.Request) func(*accel.Thread, *accel.Queue) { return r.Warp }
	for _, c := range []struct {
		name       string
		least      int
		kernel     func(*requests.Request) func(*accel.Thread, *accel.Queue) // nil: the host posts
		concurrent bool
		doorbells  nicless.Doorbells
	}{
		{name: "host", least: 10},
		{name: "host, register alone", least: 10, doorbells: nicless.DoorbellRegister},
		{name: "host beside others", least: 10, concurrent: true},
		{name: "lane", least: 6, kernel: lane, concurrent: true},
		{name: "warp", least: 1, kernel: warp, concurrent: true},
		{name: "lane, register alone", least: 6, kernel: lane, concurrent: true, doorbells: nicless.DoorbellRegister},
	} {
		q := l.create(t, c.concurrent, c.doorbells)
		p := &poster{name: c.name, least: c.least, requests: all,
			qpn: q.qp.QPN(), blocks: len(q.qp.SendRing()) / wqe.BlockSize,
			look:   func(*testing.T) look { return look{q.qp.SendRing(), q.qp.Record(), q.qp.Register()} },
			finish: func(t *testing.T) { l.finish(t, q) },
		}
		p.post = func(t *testing.T, _ int, r *requests.Request) bool {
			if c.kernel != nil {
				return l.launch(t, q, r, c.kernel(r))
			}
			_, err := q.qp.PostSendList(r.Host)
			require.NoError(t, err, r.Name)
			return true
		}
		l.posters = append(l.posters, p)
	}
	return l
}

// launch posts a request from a kernel, unless no kernel can post it.
func (l *sameness) launch(t *testing.T, q *local, r *requests.Request, k func(*accel.Thread, *accel.Queue)) bool {
	t.Helper()
	if k == nil {
		return false
	}
	grid := accel.Grid{Blocks: 1, Threads: 1}
	if len(r.Host) == accel.WarpSize {
		grid.Threads = accel.WarpSize
	}
	require.NoError(t, l.stream.Launch(grid, func(th *accel.Thread) { k(th, q.queue) }))
	require.NoError(t, l.stream.Sync(), r.Name)
	return true
}

func (l *sameness) create(t *testing.T, concurrent bool, doorbells nicless.Doorbells) *local {
	t.Helper()
	p := &local{}
	var err error
	p.cq, err = l.ctx.CreateCQ(nicless.CQConfig{PollOnly: true})
	require.NoError(t, err)
	p.qp, err = l.pd.CreateQP(nicless.QPConfig{SendCQ: p.cq, MaxSendWR: 64, Concurrent: concurrent, Doorbells: doorbells})
	require.NoError(t, err)
	peer, err := l.pd.CreateQP(nicless.QPConfig{SendCQ: p.cq, RecvCQ: p.cq, Doorbells: doorbells})
	require.NoError(t, err)
	require.NoError(t, nicless.Pair(p.qp, peer, nicless.Connection{}))
	for i := range 8 {
		piece := l.near.SGE(requests.Received+requests.Receive*i, requests.Receive)
		require.NoError(t, peer.PostRecv(&nicless.RecvWR{SGE: []nicless.SGE{piece}}))
	}
	if concurrent {
		x, err := p.qp.Export()
		require.NoError(t, err)
		p.queue, err = accel.NewQueue(x)
		require.NoError(t, err)
	}
	return p
}

// finish waits until the engine has executed everything, and checks that no request failed.
func (l *sameness) finish(t *testing.T, p *local) {
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
	for c[0].ID != requests.LastID {
		n, err := p.cq.Poll(c[:])
		require.NoError(t, err)
		if n == 1 {
			require.NoError(t, c[0].Err())
		}
	}
}

// A follower repeats in C or C++ what a poster has posted.
type follower struct {
	*talker
	name string
}

func newFollower(t *testing.T, path, name string, p *poster) *follower {
	t.Helper()
	f := &follower{talk(t, path), name}
	require.Equal(t, []string{"0"}, f.ask("queue %d %d", p.blocks, p.qpn))
	return f
}

// compare posts r in the follower's language, and compares ring, record and register with the poster's.
func (f *follower) compare(t *testing.T, r *requests.Request, want look) {
	t.Helper()
	for i := range r.InC {
		require.Equal(t, []string{"0"}, f.ask("%s", r.InC[i].Line()), r.Name)
	}
	answer := f.ask("ring")
	require.Equal(t, lines(hex.EncodeToString(want.ring)), lines(answer[0]), "%s in %s: ring", r.Name, f.name)
	require.Equal(t, hex.EncodeToString(want.record), answer[1], "%s in %s: record", r.Name, f.name)
	for i, h := range want.register {
		require.Equal(t, fmt.Sprintf("%016x", h), answer[2][512*i:512*i+16], "%s in %s: half %d of the register", r.Name, f.name, i)
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
