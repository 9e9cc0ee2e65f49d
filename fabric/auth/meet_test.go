//go:build linux && (amd64 || arm64)

package auth

import (
	"bytes"
	"io"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// streams returns the two ends of a TCP connection.
func streams(t testing.TB) (x, y net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	x, err = net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	y, err = l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { x.Close(); y.Close() })
	return x, y
}

var local = netip.MustParseAddr("127.0.0.1")

const patience = 10 * time.Second

type met struct {
	session *Session
	payload []byte
	err     error
}

// meetAs does the handshake over a stream with its other end.
func meetAs(e *end, c net.Conn, initiator bool, payload []byte) <-chan met {
	done := make(chan met, 1)
	go func() {
		var m met
		m.session, m.payload, m.err = e.Meet(c, carrier, initiator, payload, patience)
		if m.err != nil {
			c.Close()
		}
		done <- m
	}()
	return done
}

// Two ends do the handshake over a stream, exchange payloads, and go on with the stream.
func TestMeet(t *testing.T) {
	a, b := newEnd(t, true), newEnd(t, true)
	for range 2 { // the first time keys are pinned, the second time they are known
		x, y := streams(t)
		long := bytes.Repeat([]byte("b"), MostPayload)
		one, two := meetAs(a, x, true, []byte("from a")), meetAs(b, y, false, long)
		p, q := <-one, <-two
		require.NoError(t, p.err)
		require.NoError(t, q.err)
		require.Equal(t, long, p.payload)
		require.Equal(t, "from a", string(q.payload))
		exchange(t, p.session, q.session)
		exchange(t, q.session, p.session)
		go x.Write([]byte("more"))
		rest := make([]byte, 4)
		_, err := io.ReadFull(y, rest)
		require.NoError(t, err)
		require.Equal(t, "more", string(rest))
	}
	require.NoError(t, a.Peers.Known(local, b.Identity.Public()))
}

// Both ends get the reason why they have no session.
func TestMeetRefused(t *testing.T) {
	a, b, stranger := newEnd(t, false), newEnd(t, false), newEnd(t, false)
	a.accepts(t, b, local)
	b.accepts(t, a, local)
	stranger.accepts(t, b, local)

	x, y := streams(t)
	one, two := meetAs(stranger, x, true, nil), meetAs(b, y, false, nil)
	p, q := <-one, <-two
	require.ErrorIs(t, p.err, ErrRefused)
	require.ErrorContains(t, p.err, "refuses this engine: the key is not accepted")
	require.ErrorIs(t, q.err, ErrRefused)
	require.ErrorContains(t, q.err, stranger.Identity.Public().String())

	stranger.accepts(t, a, local)
	x, y = streams(t)
	one, two = meetAs(a, x, true, nil), meetAs(stranger, y, false, nil)
	p, q = <-one, <-two
	require.ErrorIs(t, p.err, ErrRefused)
	require.NotErrorIs(t, q.err, ErrRefused)
	require.Error(t, q.err)

	b.Encrypt = true
	x, y = streams(t)
	one, two = meetAs(a, x, true, nil), meetAs(b, y, false, nil)
	p, q = <-one, <-two
	require.ErrorContains(t, p.err, "encrypt")
	require.ErrorContains(t, q.err, "encrypt")
}

// Wrong input over a stream ends the meeting with an error,
// and soon: junk, long frames, silence, an early end.
func TestMeetStrangers(t *testing.T) {
	a := newEnd(t, false)
	for _, initiator := range []bool{true, false} {
		for _, junk := range [][]byte{nil, {0}, {0, 0}, {0xff, 0xff}, bytes.Repeat([]byte{0xff}, 64), append([]byte{0, 32}, make([]byte, 32)...),
			append([]byte{0, 32}, bytes.Repeat([]byte{9}, 500)...)} {
			x, y := streams(t)
			_, err := x.Write(junk)
			require.NoError(t, err)
			require.NoError(t, x.(*net.TCPConn).CloseWrite())
			m := <-meetAs(a, y, initiator, nil)
			require.Error(t, m.err)
			require.Nil(t, m.session)
		}
	}
	_, y := streams(t)
	_, _, err := a.Meet(y, carrier, false, nil, time.Millisecond)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	p, _ := net.Pipe()
	_, _, err = a.Meet(p, carrier, true, nil, patience)
	require.ErrorContains(t, err, "is no address of TCP")
}

// Cookies are good for their address, place and time only.
func TestCookies(t *testing.T) {
	start := time.Unix(1000, 0)
	c, other := NewCookies(start), NewCookies(start)
	now := start.Add(time.Hour)
	k := c.Make(1, here, now)
	require.True(t, c.Good(1, here, k[:], now))
	require.True(t, c.Good(1, here, k[:], now.Add(CookieLife)))
	require.False(t, c.Good(1, here, k[:], now.Add(CookieLife+time.Second)))
	require.False(t, c.Good(1, here, k[:], now.Add(-time.Second)))
	require.False(t, c.Good(2, here, k[:], now))
	require.False(t, c.Good(1, there, k[:], now))
	require.False(t, other.Good(1, here, k[:], now))
	require.False(t, c.Good(1, here, make([]byte, CookieSize), start))
	require.False(t, c.Good(1, here, k[:15], now))
	for i := range k {
		bad := k
		bad[i] ^= 1
		require.False(t, c.Good(1, here, bad[:], now))
	}
	require.Zero(t, testing.AllocsPerRun(100, func() { c.Good(1, here, k[:], now) }))
}
