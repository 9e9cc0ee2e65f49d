package nicless

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/state"
	"github.com/stretchr/testify/require"
)

// fabricOf returns the engines of the fabric as the engine at path sees them.
func fabricOf(t *testing.T, path string) []state.Peer {
	t.Helper()
	s, err := state.Read(await.Context(t), path, state.Request{Fabric: true})
	require.NoError(t, err)
	require.NotEmpty(t, s.Peers)
	require.Empty(t, s.Peers[0].Link, "the engine itself is first")
	require.NotNil(t, s.Peers[0].Summary)
	return s.Peers
}

// untilPeer waits until an engine sees its one peer as ok says.
func untilPeer(t *testing.T, what, path string, ok func(p *state.Peer) bool) (p state.Peer) {
	t.Helper()
	await.Until(t, what, func() bool {
		list := fabricOf(t, path)
		if len(list) != 2 {
			return false
		}
		p = list[1]
		return ok(&p)
	}, func() any { return fmt.Sprintf("%v: %+v", p.Why, p.Summary) }) // no address of memory, which changes
	return p
}

// An engine process tells another in a pool what its programs do, as long as it can: when it stands still,
// when it is killed and when it has come back, the other says so.
func TestSurveyOverAPool(t *testing.T) {
	link := fmt.Sprintf("pool:%s,size=8M,dead=1m,node=", filepath.Join(t.TempDir(), "pool"))
	path := inProcess(t, Config{Links: []string{link + "0"}})
	t.Setenv("NICLESS_TEST_LINKS", link+"1")
	t.Setenv("NICLESS_TEST_DISCLOSE", "programs")
	e, other := startEngine(t)
	client := named(t, dialed(t, other))
	p, q := client.newQP(t), client.newQP(t)
	require.NoError(t, p.Connect(q.Descriptor(client.mr.Remote("m")), Connection{}))
	require.NoError(t, q.Connect(p.Descriptor(client.mr.Remote("m")), Connection{}))
	client.writes(t, p, q.Descriptor(client.mr.Remote("m")), 0)
	// Programs come by messages of their own, later than the counts. If one is lost, the next look has them.
	seen := untilPeer(t, "the write, this engine and the program are known", path, func(p *state.Peer) bool {
		return p.Summary != nil && p.Summary.WQEs == 1 && p.Summary.PeersUp == 1 && len(p.Summary.Programs) > 0
	})
	require.Equal(t, fmt.Sprintf("%016x", client.Device()), seen.GUID)
	require.Equal(t, "node 1", seen.Name)
	s := seen.Summary
	require.EqualValues(t, e.Process.Pid, s.PID)
	require.Equal(t, []uint32{1, 1, 2, 0, 1}, []uint32{s.Clients, s.Running, s.Queues, s.Linked, s.PeersUp})
	require.True(t, s.Disclosed)
	require.Len(t, s.Programs, 1)
	require.EqualValues(t, os.Getpid(), s.Programs[0].PID)
	require.EqualValues(t, 2, s.Programs[0].Queues)
	require.EqualValues(t, 1, s.Programs[0].WQEs)

	back := untilPeer(t, "the other engine sees this one", other, func(p *state.Peer) bool { return p.Summary != nil })
	require.EqualValues(t, os.Getpid(), back.Summary.PID)
	require.False(t, back.Summary.Disclosed, "the default")

	require.NoError(t, e.Process.Signal(syscall.SIGSTOP))
	stopped := untilPeer(t, "it stands still", path, func(p *state.Peer) bool { return p.Summary == nil })
	require.True(t, stopped.Up)
	require.Contains(t, stopped.Why, "no answer in 700ms")
	require.NoError(t, e.Process.Signal(syscall.SIGCONT))
	untilPeer(t, "it goes on", path, func(p *state.Peer) bool { return p.Summary != nil })
}

// An engine that is killed is down, and one that follows is known.
func TestSurveyAfterAKill(t *testing.T) {
	link := fmt.Sprintf("pool:%s,size=8M,dead=200ms,node=", filepath.Join(t.TempDir(), "pool"))
	path := inProcess(t, Config{Links: []string{link + "0"}})
	t.Setenv("NICLESS_TEST_LINKS", link+"1")
	e, _ := startEngine(t)
	untilPeer(t, "it answers", path, func(p *state.Peer) bool { return p.Summary != nil })
	e.kill()
	down := untilPeer(t, "it is down", path, func(p *state.Peer) bool { return !p.Up })
	require.Nil(t, down.Summary)
	require.NotEmpty(t, down.Why)
	e, _ = startEngine(t)
	untilPeer(t, "the next one answers", path, func(p *state.Peer) bool {
		return p.Summary != nil && p.Summary.PID == uint32(e.Process.Pid)
	})
}

// Over RoCE engines know each other when programs have connected.
func TestSurveyOverRoCE(t *testing.T) {
	if !alone(t) {
		return
	}
	addAddress(t, "10.66.0.2/24")
	path := inProcess(t, Config{Links: []string{"roce:10.66.0.1"}})
	t.Setenv("NICLESS_TEST_LINKS", "roce:10.66.0.2")
	e, other := startEngine(t)
	require.Len(t, fabricOf(t, path), 1, "nobody is known")
	listener, dialler := named(t, dialed(t, path)), named(t, dialed(t, other))
	l, err := listener.ListenName("db", ListenConfig{ToAll: true})
	require.NoError(t, err)
	connectByName(t, l, listener, dialler, "db@10.66.0.1")
	for _, row := range []struct {
		asks, address string
		pid           int
		guid          uint64
	}{{path, "10.66.0.2", e.Process.Pid, dialler.Device()}, {other, "10.66.0.1", os.Getpid(), listener.Device()}} {
		p := untilPeer(t, "it answers", row.asks, func(p *state.Peer) bool { return p.Summary != nil })
		require.Equal(t, row.address, p.Name)
		require.Equal(t, fmt.Sprintf("%016x", row.guid), p.GUID)
		require.EqualValues(t, row.pid, p.Summary.PID)
		require.EqualValues(t, 1, p.Summary.Linked)
		require.Empty(t, p.Summary.Programs)
	}
}

func TestWrongDisclosure(t *testing.T) {
	_, err := Open(Config{Disclose: "all"})
	require.EqualError(t, err, `nicless: Disclose: "all"; counts, programs and nothing are possible`)
}
