//go:build linux && (amd64 || arm64)

package netdev

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/fault"
)

// A client that dials without a pause, does not keep others from being answered.
func TestDialsOfOneAreOne(t *testing.T) {
	socket := serve(t)
	ours, err := nicless.Dial(socket)
	require.NoError(t, err)
	a := openOn(t, ours, "10.1.0.1")
	a.in.now = func() time.Time { return time.Unix(1, 0) } // unknown ones wait for ever
	a.run()
	c := client(t, socket)
	s := &stranger{t: t, c: c, to: a.addr}
	s.makeQueues()
	to := s.hears()
	for range 2 * nicless.MaxBacklog {
		qp, err := s.pd.CreateQP(nicless.QPConfig{SendCQ: s.cq, SignalAll: true})
		require.NoError(t, err)
		go func() { _, _ = c.DialClient(t.Context(), &to, dialled, qp, connection) }()
	}
	b := start(t, socket, "10.1.0.2")
	b.meets(a)
}

// A dial for which there is no queue pair is refused at once.
func TestNoQueuePair(t *testing.T) {
	socket := serve(t)
	a, b := start(t, socket, "10.1.0.1"), start(t, socket, "10.1.0.2")
	a.peer(b.addr)
	b.peer(a.addr)
	_, err := a.c.Faults(fault.Rules{Seed: 1, Rules: []fault.Rule{
		{Match: fault.Match{Nth: 1}, Refuse: &fault.Refuse{Call: "create_qp", Errno: "ENOMEM"}},
	}})
	require.NoError(t, err)
	b.sends(a.addr, 100, 1)
	b.until("it has none itself", func(s Stats) bool { return s.Dropped == 1 })
	b.sends(a.addr, 100, 2)
	b.until("it says why", func(s Stats) bool { return strings.Contains(s.Peers[0].Why, "no queue pair for it") })
	b.until("the packet is counted", func(s Stats) bool { return s.Dropped == 2 })
	b.meets(a)
}
