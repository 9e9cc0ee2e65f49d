//go:build linux && (amd64 || arm64)

package netdev

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless"
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
