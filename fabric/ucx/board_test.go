//go:build linux && (amd64 || arm64)

package ucx

import (
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/board"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// receives waits until an engine has received exactly this from another.
func (d *testDevice) receives(t testing.TB, guid uint64, list ...board.Entry) {
	t.Helper()
	heard := func() []board.Entry {
		got, _ := d.heard.Load(guid)
		entries, _ := got.([]board.Entry)
		return entries
	}
	await.Until(t, "announcements", func() bool { return slices.Equal(heard(), list) }, func() any { return len(heard()) })
}

func announce(t testing.TB, c *Carrier, list ...board.Entry) (left int) {
	t.Helper()
	left, err := c.Announce(list)
	require.NoError(t, err)
	return left
}

// full returns a list that leaves no room for another entry as long, and the addresses beside it.
func full() (list []board.Entry, addresses []Address) {
	for i := range board.Max / 486 {
		list = append(list, board.Entry{Client: uint32(i + 1), Value: strings.Repeat(string(rune('a'+i)), 480)})
	}
	for i := range MaxAddresses {
		addresses = append(addresses, Address{GID: [16]byte{15: byte(i + 1)}, LID: uint16(i + 1)})
	}
	return list, addresses
}

// Announcements travel in hellos: the first ones, and those of a link that is up. They go with their engine.
func TestAnnounce(t *testing.T) {
	for _, tls := range []string{"tcp,self", "posix,tcp,self"} {
		t.Run(tls, func(t *testing.T) {
			env, dead := []string{"UCX_TLS=" + tls, "UCX_NET_DEVICES=lo"}, 500*time.Millisecond
			list, addresses := full()
			address := freePort(t)
			a, da := open(t, 1, Config{Listen: address, Env: env, Dead: dead})
			require.Zero(t, announce(t, a, list...))
			require.NoError(t, a.SetAddresses(addresses))
			b, db := open(t, 2, Config{Connect: []string{address}, Env: env, Dead: dead})
			require.Zero(t, announce(t, b, list[:3]...), "perhaps while the link is being made")
			db.receives(t, 1, list...)
			da.receives(t, 2, list[:3]...)
			require.Equal(t, 1, announce(t, b, append(list[:len(list):len(list)], board.Entry{Client: 99, Value: strings.Repeat("z", 480)})...))
			da.receives(t, 2, list...)
			for n := range 20 { // the last one counts
				announce(t, b, list[n%len(list)])
			}
			da.receives(t, 2, list[19%len(list)])
			announce(t, b)
			da.receives(t, 2)
			announce(t, b, list[7])
			da.receives(t, 2, list[7])

			pid, why := b.Process()
			require.NotZero(t, pid, why)
			require.NoError(t, unix.Kill(pid, unix.SIGSTOP))
			da.receives(t, 2)
			require.NoError(t, unix.Kill(pid, unix.SIGKILL))
			da.receives(t, 2, list[7])
			db.receives(t, 1, list...)
			require.NoError(t, b.Close())
			da.receives(t, 2)
			db.receives(t, 1)
		})
	}
}

// A hello that is older than one that has come already has no effect. That of another life does.
func TestOldHello(t *testing.T) {
	c, d := bare(t)
	join := func(life uint64, sequence uint32, value string) *conn {
		one, two := net.Pipe()
		t.Cleanup(func() { one.Close(); two.Close() })
		k := &conn{process: c.process, wire: &wire{conn: one}}
		h := hello{guid: 2, life: life, mtu: 4096, sequence: sequence, announced: []board.Entry{{Client: 1, Value: value}}}
		require.NoError(t, c.join(k, &offer{hello: h}, false))
		return k
	}
	renewed := func(k *conn, sequence uint32, value string) {
		h := k.peer.hello
		h.sequence, h.announced = sequence, []board.Entry{{Client: 1, Value: value}}
		require.NoError(t, c.renewed(k, h))
	}
	first := join(5, 1<<32-1, "first")
	_, told := d.heard.Load(uint64(2))
	require.False(t, told, "the link is not up yet")
	c.handle(c.process, &message{kind: msgUp, number: first.number})
	d.receives(t, 2, board.Entry{Client: 1, Value: "first"})
	renewed(first, 1<<32-2, "old")
	d.receives(t, 2, board.Entry{Client: 1, Value: "first"})
	renewed(first, 0, "next")
	d.receives(t, 2, board.Entry{Client: 1, Value: "next"})
	second := join(5, 1<<32-1, "old, by another connection")
	d.receives(t, 2, board.Entry{Client: 1, Value: "next"})
	other := first.peer.hello
	other.life = 6
	require.ErrorContains(t, c.renewed(first, other), "another engine now")
	for _, k := range []*conn{first, second} {
		c.handle(c.process, &message{kind: msgGone, number: k.number, body: []byte("gone")})
	}
	d.receives(t, 2)
	third := join(6, 1<<32-1, "another life")
	c.handle(c.process, &message{kind: msgUp, number: third.number})
	d.receives(t, 2, board.Entry{Client: 1, Value: "another life"})
}

// bare returns a carrier whose process is only a socket.
func bare(t *testing.T) (*Carrier, *testDevice) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	p := &process{control: os.NewFile(uintptr(pair[0]), "control")}
	t.Cleanup(func() {
		_ = unix.Close(pair[1])
		_ = p.control.Close()
	})
	d := &testDevice{guid: 1}
	c := newCarrier(d, Config{MTU: 4096}.withDefaults())
	c.process = p
	return c, d
}
