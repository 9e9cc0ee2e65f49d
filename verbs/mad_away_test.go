package verbs

import (
	"testing"
	"time"

	"github.com/nicless/nicless/verbs/internal/mad"
	"github.com/stretchr/testify/require"
)

// Requests of subnet administration do not leave for a port of another engine. The ping behind them is
// answered when that engine has seen all that was sent before.
func TestSubnetMADsStayHere(t *testing.T) {
	wires := &cable{pool: true}
	a, b := wires.server(t).s, wires.server(t).s
	m := a.pinger(t, false)
	require.Zero(t, m.ioctl(mad.RegisterAgent, registration(1, mad.ClassSA, 2, 1, 0)))
	to := b.devices[0].lid
	sa := mad.Header{BaseVersion: 1, Class: mad.ClassSA, ClassVersion: 2, Attribute: mad.AttrNodeRecord}
	for _, method := range []byte{mad.Get, mad.GetTable} {
		sa.Method = method
		sa.TID++
		require.Zero(t, m.write(mad.User{ID: 1, LID: to, Timeout: 60000}, sa))
	}
	require.Zero(t, m.write(mad.User{LID: to, Timeout: 60000}, ping, pinged("")...))
	_, answer := m.read()
	require.Equal(t, uint8(mad.ClassPing), mad.ParseHeader(answer).Class)
	require.Empty(t, append(a.farNotes(), b.farNotes()...))
}

// A subnet counts for 200 ms at most, although it took an hour to find out, and is found out again then.
func TestSubnetCountsForAMoment(t *testing.T) {
	wires := &cable{pool: true}
	s := wires.server(t).s
	s.mads.mu.Lock()
	defer s.mads.mu.Unlock()
	long := time.Now().Add(-time.Hour)
	first := s.farSubnet(long)
	require.Equal(t, long.Add(200*time.Millisecond), s.mads.far.fresh)
	require.Same(t, first, s.farSubnet(long.Add(200*time.Millisecond)))
	require.NotSame(t, first, s.farSubnet(long.Add(201*time.Millisecond)))
}
