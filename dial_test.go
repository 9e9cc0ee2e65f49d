package nicless

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nicless/nicless/fabric/ucx/ucxtest"
	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/freeport"
	"github.com/stretchr/testify/require"
)

// byName is a client with what a connection by name needs.
type byName struct {
	*Context
	pd *PD
	cq *CQ
	mr *MR
}

func named(t *testing.T, c *Context) (b byName) {
	t.Helper()
	b.Context = c
	var err error
	b.pd, err = c.AllocPD()
	require.NoError(t, err)
	b.mr, err = b.pd.RegisterMemory(4096, FullAccess)
	require.NoError(t, err)
	b.cq, err = c.CreateCQ(CQConfig{Entries: 1024})
	require.NoError(t, err)
	return b
}

func (b byName) newQP(t *testing.T) *QP {
	t.Helper()
	q, err := b.pd.CreateQP(QPConfig{SendCQ: b.cq})
	require.NoError(t, err)
	return q
}

// writes checks that a queue pair reaches the memory of its peer.
func (b byName) writes(t *testing.T, q *QP, peer Descriptor, at uint64) {
	t.Helper()
	m, err := peer.Find("m")
	require.NoError(t, err)
	require.NoError(t, q.PostSend(&SendWR{Op: Write, Flags: Signaled, RemoteAddr: m.Addr + at, RKey: m.RKey,
		SGE: []SGE{b.mr.SGE(0, 8)}}))
	var done [1]Completion
	for n := 0; n == 0; {
		n, err = b.cq.Wait(await.Context(t), done[:])
		require.NoError(t, err)
	}
	require.NoError(t, done[0].Err())
}

// twoEngines has links that join two engines.
func twoEngines(t *testing.T) map[string]func(t *testing.T) [2][]string {
	return map[string]func(t *testing.T) [2][]string{
		"pool": func(t *testing.T) [2][]string {
			link := fmt.Sprintf("pool:%s,dead=1m,size=8M,node=", filepath.Join(t.TempDir(), "pool"))
			return [2][]string{{link + "0"}, {link + "1"}}
		},
		"ucx": func(t *testing.T) [2][]string {
			ucxtest.NeedUCX(t)
			t.Setenv("NICLESS_UCX", ucxtest.Program(t))
			at := fmt.Sprintf("127.0.0.1:%d", freeport.TCP(t))
			return [2][]string{{"ucx:listen=" + at + ",tls=tcp+self,devices=lo"}, {"ucx:" + at + ",tls=tcp+self,devices=lo"}}
		},
	}
}

// A program dials a name on another engine, and both queue pairs can send when both calls return: whichever
// side listens, in an engine of its own or at a socket.
func TestDialNameOverLinks(t *testing.T) {
	for name, links := range twoEngines(t) {
		t.Run(name, func(t *testing.T) {
			link := links(t)
			a, err := Open(Config{Links: link[0]})
			require.NoError(t, err)
			defer a.Close()
			path := inProcess(t, Config{Links: link[1]})
			for _, pair := range [][2]*Context{{a, dialed(t, path)}, {dialed(t, path), a}} {
				listener, dialler := named(t, pair[0]), named(t, pair[1])
				l, err := listener.ListenName("db", ListenConfig{})
				require.NoError(t, err)
				require.NoError(t, dialler.WaitName(await.Context(t), "db"))
				connectByName(t, l, listener, dialler, "db")
				connectByName(t, l, listener, dialler, fmt.Sprintf("db@%016x", listener.Device()))
				require.NoError(t, l.Close())
			}
		})
	}
}

// connectByName connects two programs by a name, and has each write into the memory of the other at once.
func connectByName(t *testing.T, l *Listener, listener, dialler byName, name string) {
	t.Helper()
	ctx := await.Context(t)
	accepted := make(chan error, 1)
	q := listener.newQP(t)
	var peer Descriptor
	go func() {
		call, err := l.Accept(ctx)
		if err == nil {
			peer = call.Peer()
			err = call.Accept(ctx, q, Connection{}, listener.mr.Remote("m"))
		}
		accepted <- err
	}()
	p := dialler.newQP(t)
	to, err := dialler.DialName(ctx, name, p, Connection{}, dialler.mr.Remote("m"))
	require.NoError(t, err)
	require.Equal(t, listener.Device(), to.Device)
	require.Equal(t, q.QPN(), to.QPN)
	dialler.writes(t, p, to, 0)
	require.NoError(t, <-accepted)
	require.Equal(t, dialler.Device(), peer.Device)
	listener.writes(t, q, peer, 0)
	for _, q := range []*QP{p, q} {
		attr, err := q.Query()
		require.NoError(t, err)
		require.Equal(t, StateRTS, attr.State)
	}
}

// Over RoCE a program dials a name at an IP address. There, only names for all are found.
func TestDialNameOverRoCE(t *testing.T) {
	if !alone(t) {
		return
	}
	addAddress(t, "10.66.0.2/24")
	open := func(address string) byName {
		c, err := Open(Config{Links: []string{"roce:" + address}})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return named(t, c)
	}
	listener, dialler := open("10.66.0.1"), open("10.66.0.2")
	l, err := listener.ListenName("db", ListenConfig{ToAll: true})
	require.NoError(t, err)
	connectByName(t, l, listener, dialler, "db@10.66.0.1")
	connectByName(t, l, listener, dialler, "db@10.66.0.1")

	_, err = dialler.DialName(await.Context(t), "other@10.66.0.1", dialler.newQP(t), Connection{})
	require.ErrorIs(t, err, ErrRejected)
	require.ErrorContains(t, err, fmt.Sprintf(`no client of engine %016x listens as "other" for all`, listener.Device()))
	require.NoError(t, l.Close())
	own, err := listener.ListenName("db", ListenConfig{})
	require.NoError(t, err)
	defer own.Close()
	_, err = dialler.DialName(await.Context(t), "db@10.66.0.1", dialler.newQP(t), Connection{})
	require.ErrorIs(t, err, ErrRejected, "it is for one user, and hosts do not know each other's users")
	_, err = dialler.DialName(await.Context(t), "db@10.66.0.2", dialler.newQP(t), Connection{})
	require.ErrorIs(t, err, ErrNotFound, "its own address")
}

// Engines that a pool joins too dial an IP address over RoCE, and all messages go there.
func TestDialNameOverRoCEBesidesAPool(t *testing.T) {
	if !alone(t) {
		return
	}
	addAddress(t, "10.66.0.2/24")
	link := fmt.Sprintf("pool:%s,dead=1m,size=8M,node=", filepath.Join(t.TempDir(), "pool"))
	open := func(node, address string) byName {
		c, err := Open(Config{Links: []string{link + node, "roce:" + address}})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return named(t, c)
	}
	listener, dialler := open("0", "10.66.0.1"), open("1", "10.66.0.2")
	l, err := listener.ListenName("db", ListenConfig{ToAll: true})
	require.NoError(t, err)
	ctx := await.Context(t)
	require.NoError(t, dialler.WaitName(ctx, "db"), "the pool is up")
	accepted := make(chan error, 1)
	q, p := listener.newQP(t), dialler.newQP(t)
	go func() {
		call, err := l.Accept(ctx)
		if err == nil {
			err = call.Accept(ctx, q, Connection{}, listener.mr.Remote("m"))
		}
		accepted <- err
	}()
	to, err := dialler.DialName(ctx, "db@10.66.0.1", p, Connection{}, dialler.mr.Remote("m"))
	require.NoError(t, err)
	require.NoError(t, <-accepted)
	require.Equal(t, "10.66.0.1", to.Address.String())
	require.Zero(t, to.Device, "another link leads to the engine of that number, so the packet does not prove it")
	dialler.writes(t, p, to, 0)
}

// Many dial one name at once, more than wait for Accept at once.
func TestManyDiallers(t *testing.T) {
	link := fmt.Sprintf("pool:%s,dead=1m,size=8M,node=", filepath.Join(t.TempDir(), "pool"))
	a, err := Open(Config{Links: []string{link + "0"}})
	require.NoError(t, err)
	defer a.Close()
	path := inProcess(t, Config{Links: []string{link + "1"}})
	listener := named(t, a)
	l, err := listener.ListenName("db", ListenConfig{Backlog: 4})
	require.NoError(t, err)
	const clients, each = 4, 8
	ctx := await.Context(t)
	var all sync.WaitGroup
	errs := make(chan error, 2*clients*each)
	for range clients {
		c := named(t, dialed(t, path))
		require.NoError(t, c.WaitName(ctx, "db"))
		for range each {
			q := c.newQP(t)
			all.Go(func() {
				_, err := c.DialName(ctx, "db", q, Connection{})
				errs <- err
			})
		}
	}
	peers := make(map[uint32]bool)
	for range clients * each {
		call, err := l.Accept(ctx)
		require.NoError(t, err)
		require.False(t, peers[call.Peer().QPN], "each dials once")
		peers[call.Peer().QPN] = true
		q := listener.newQP(t)
		all.Go(func() { errs <- call.Accept(ctx, q, Connection{}) })
	}
	all.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
}

// Errors name what was dialled, and what is there.
func TestDialNameErrors(t *testing.T) {
	path := inProcess(t, Config{})
	a, b, c := named(t, dialed(t, path)), named(t, dialed(t, path)), named(t, dialed(t, path))
	ctx := await.Context(t)
	q := c.newQP(t)
	dial := func(name string) error {
		_, err := c.DialName(ctx, name, q, Connection{})
		require.Error(t, err)
		require.True(t, strings.HasPrefix(err.Error(), fmt.Sprintf("nicless: dial %q: ", name)), "%v", err)
		attr, queryErr := q.Query()
		require.NoError(t, queryErr)
		require.Equal(t, StateINIT, attr.State, "the queue pair can be used")
		return err
	}
	err := dial("db")
	require.ErrorIs(t, err, ErrNotFound)
	require.ErrorContains(t, err, "no other program announces any name")
	l, err := a.ListenName("db", ListenConfig{})
	require.NoError(t, err)
	err = dial("bd")
	require.ErrorIs(t, err, ErrNotFound)
	require.ErrorContains(t, err, fmt.Sprintf("no other program announces it; announced are: db@%016x", a.Device()))
	second, err := b.ListenName("db", ListenConfig{})
	require.NoError(t, err)
	require.ErrorContains(t, dial("db"), fmt.Sprintf("2 programs announce it, on the engines %016x;", a.Device()))
	require.NoError(t, second.Close())

	for name, why := range map[string]string{
		"": "empty name", "db@": `"" follows the @`, "db@10.0.0": `"10.0.0" follows the @`, "db@0000000000000000": "follows the @",
		"db@fe80::1%eth0": "follows the @", "a b": "a space", "db@00000000000000aa": "no other program announces it",
		"db@192.0.2.1": "no link leads there",
	} {
		require.ErrorContains(t, dial(name), why)
	}
	_, err = c.DialName(ctx, "db", nil, Connection{})
	require.ErrorContains(t, err, "no queue pair (nil)")
	_, err = c.DialName(ctx, "db", a.newQP(t), Connection{})
	require.ErrorContains(t, err, "was made through another Context")
	_, err = c.DialName(ctx, "db", q, Connection{Retry: 9})
	require.ErrorContains(t, err, "Retry 9")
	_, err = c.DialName(ctx, "db", q, Connection{}, c.mr.Remote("a"), c.mr.Remote("b"), c.mr.Remote("c"), c.mr.Remote("d"))
	require.ErrorContains(t, err, "4 pieces of memory need 116 bytes with the queue pair; at most 111 are possible here")
	_, err = (&Context{}).DialName(ctx, "db", q, Connection{})
	require.ErrorIs(t, err, ErrClosed)

	go func() {
		call, err := l.Accept(ctx)
		if err == nil {
			_ = call.Reject("come back tomorrow")
		}
	}()
	err = dial("db")
	require.ErrorIs(t, err, ErrRejected)
	require.ErrorContains(t, err, "the listener has refused: come back tomorrow")

	short, cancel := context.WithCancel(ctx)
	dialled := make(chan error, 1)
	go func() {
		_, err := c.DialName(short, "db", q, Connection{})
		dialled <- err
	}()
	call, err := l.Accept(ctx)
	require.NoError(t, err)
	cancel()
	require.ErrorIs(t, <-dialled, context.Canceled)
	require.NoError(t, call.Reject("too late"), "nobody waits")
}

// A name that goes while somebody dials is an error, and one that moves is followed.
func TestNamesThatMove(t *testing.T) {
	path := inProcess(t, Config{})
	a, b, c := named(t, dialed(t, path)), named(t, dialed(t, path)), named(t, dialed(t, path))
	ctx := await.Context(t)
	dial := func() chan error {
		q, done := c.newQP(t), make(chan error, 1)
		go func() {
			_, err := c.DialName(ctx, "db", q, Connection{})
			done <- err
		}()
		return done
	}
	l, err := a.ListenName("db", ListenConfig{})
	require.NoError(t, err)
	dialled := dial()
	_, err = l.Accept(ctx) // and no answer
	require.NoError(t, err)
	second, err := b.ListenName("db", ListenConfig{})
	require.NoError(t, err)
	require.ErrorContains(t, <-dialled, "the listener has gone: 2 programs announce it")
	require.NoError(t, second.Close())

	dialled = dial()
	_, err = l.Accept(ctx)
	require.NoError(t, err)
	require.NoError(t, a.Close())
	require.ErrorContains(t, <-dialled, "the listener has gone: no other program announces any name")
	require.ErrorIs(t, l.Close(), nil)
	_, err = l.Accept(ctx)
	require.ErrorIs(t, err, ErrClosed)

	l, err = b.ListenName("db", ListenConfig{})
	require.NoError(t, err)
	require.NoError(t, c.WaitName(ctx, "db"))
	dialled = dial()
	call, err := l.Accept(ctx)
	require.NoError(t, err)
	require.NoError(t, call.Accept(ctx, b.newQP(t), Connection{}))
	require.NoError(t, <-dialled)
}
