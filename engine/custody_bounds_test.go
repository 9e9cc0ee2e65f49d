//go:build linux && (amd64 || arm64)

package engine

import (
	"testing"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// watchEverything is what a watch for the sanitizer asks for.
var watchEverything = control.Watch{All: control.WatchAll | control.WatchReplay | control.WatchSanitize}

// A watch sees what its own user's queue pair does, and of the peer, which belongs to another user, neither the
// receives nor what has changed there, although a watch of the engine's user watches both.
func TestSanitizerKeepsPeersOfOtherUsersApart(t *testing.T) {
	if *watched {
		t.Skip("all queues are watched by one more")
	}
	s := newScene(t, Config{})
	const alice, bob = 100_001, 100_002
	s.p.h.c.UID, s.q.h.c.UID = alice, bob
	users, err := s.d.nic().NewHosted("h", alice, nic.Hosted{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = users.Close() })
	own := (&host{rig: s.rig, c: users}).watch(watchEverything)
	all := s.host("watcher").watch(watchEverything)
	s.pass(0)
	s.q.recv(s.far.data(0, 16))
	s.p.post(ctrl(wqe.OpSend), s.local.data(0, 10))
	s.settle()
	s.far.mem[3]++
	s.q.rq[3]-- // the entry of the receive: a byte less
	s.release()
	of := func(events []trace.Event) (s string) {
		for _, e := range events {
			if e.Kind == trace.KindPosted || e.Kind == trace.KindChanged {
				s += e.Kind.String() + " "
			}
		}
		return s
	}
	require.Equal(t, "posted changed changed ", of(all()))
	require.Empty(t, of(own()), "what is another user's")
}
