//go:build linux && (amd64 || arm64)

package tun

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// seen counts the packets of a cable by what their headers say.
type seen struct {
	tcp4, tcp6, udp4, udp6 atomic.Int64 // to be segmented
	partial                atomic.Int64 // only the checksum is missing
	complete, refused      atomic.Int64
	largest                atomic.Int64
}

// carry copies packets from one device to another until the first is closed. Check has to accept
// all, because a kernel made them.
func (s *seen) carry(t *testing.T, from, to *Device, keep func(b []byte, n int)) {
	b := make([]byte, HeaderSize+MaxPacket)
	var head [SnapshotSize]byte
	for {
		n, err := from.Read(b)
		if errors.Is(err, os.ErrClosed) {
			return
		}
		if !assert.NoError(t, err) {
			return
		}
		k := copy(head[:], b[:n])
		if err := Check(head[:k], n-HeaderSize); err != nil {
			s.refused.Add(1)
			assert.NoError(t, err, "%x", head[:k])
			continue
		}
		s.count(Parse(b), b[HeaderSize]>>4, int64(n-HeaderSize))
		if keep != nil {
			keep(b, n)
		}
		if err := to.Write(head[:k], b[k:n]); err != nil && !errors.Is(err, os.ErrClosed) {
			assert.NoError(t, err)
		}
	}
}

func (s *seen) count(h Header, version byte, n int64) {
	s.largest.Store(max(s.largest.Load(), n))
	switch {
	case h.GSO == TCPv4:
		s.tcp4.Add(1)
	case h.GSO == TCPv6:
		s.tcp6.Add(1)
	case h.GSO == UDP && version == 4:
		s.udp4.Add(1)
	case h.GSO == UDP:
		s.udp6.Add(1)
	case h.Flags&NeedsChecksum != 0:
		s.partial.Add(1)
	default:
		s.complete.Add(1)
	}
}

// A cable is two devices in two network namespaces, with a goroutine in each direction. near is in
// the namespace of the test.
type cable struct {
	near, far *Device
	seen      seen
	there     chan func() // runs in the far namespace
}

func newCable(t *testing.T, mtu int, plain bool, keep func(b []byte, n int)) *cable {
	t.Helper()
	c := &cable{there: make(chan func())}
	config := func(host int) Config {
		return Config{Name: fmt.Sprintf("cable%d", host), MTU: mtu, Plain: plain, Addresses: []netip.Prefix{
			netip.MustParsePrefix(fmt.Sprintf("10.77.8.%d/24", host)), netip.MustParsePrefix(fmt.Sprintf("fd77::%d/64", host))}}
	}
	c.near = open(t, config(1))
	opened := make(chan error)
	go elsewhere(t, func() {
		var err error
		c.far, err = Open(config(2))
		opened <- err
		for do := range c.there {
			do()
		}
	})
	require.NoError(t, <-opened)
	var carriers sync.WaitGroup
	carriers.Go(func() { c.seen.carry(t, c.near, c.far, keep) })
	carriers.Go(func() { c.seen.carry(t, c.far, c.near, nil) })
	t.Cleanup(func() {
		_ = c.near.Close()
		_ = c.far.Close()
		carriers.Wait()
		close(c.there)
	})
	return c
}

// beyond runs do in the far namespace and waits for it.
func (c *cable) beyond(do func()) {
	done := make(chan struct{})
	c.there <- func() { do(); close(done) }
	<-done
}

// stream sends size bytes by TCP to the far namespace, and checks what arrives.
func (c *cable) stream(t *testing.T, address string, size int) {
	t.Helper()
	data := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{byte(size)}).Read(data)
	var l net.Listener
	var err error
	c.beyond(func() { l, err = net.Listen("tcp", net.JoinHostPort(address, "0")) })
	require.NoError(t, err)
	defer l.Close()
	got := make(chan []byte, 1)
	go func() {
		conn, err := l.Accept()
		if !assert.NoError(t, err) {
			got <- nil
			return
		}
		defer conn.Close()
		all, err := io.ReadAll(conn)
		assert.NoError(t, err)
		got <- all
	}()
	conn, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	await.Deadline(t, conn)
	_, err = conn.Write(data)
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	require.True(t, bytes.Equal(data, await.Receive(t, "all bytes arrive", got)), "%d bytes by TCP to %s arrive as they were sent", size, address)
}

// datagrams sends one datagram of each size by UDP, each after the one before has arrived. With
// segment, the kernel is asked to send the bytes in datagrams of that size.
func (c *cable) datagrams(t *testing.T, address string, segment int, sizes ...int) {
	t.Helper()
	var server net.PacketConn
	var err error
	c.beyond(func() { server, err = net.ListenPacket("udp", net.JoinHostPort(address, "0")) })
	require.NoError(t, err)
	defer server.Close()
	await.Deadline(t, server)
	conn, err := net.Dial("udp", server.LocalAddr().String())
	require.NoError(t, err)
	defer conn.Close()
	if segment != 0 {
		raw, err := conn.(*net.UDPConn).SyscallConn()
		require.NoError(t, err)
		require.NoError(t, raw.Control(func(fd uintptr) {
			assert.NoError(t, unix.SetsockoptInt(int(fd), unix.SOL_UDP, unix.UDP_SEGMENT, segment))
		}))
	}
	data, b := make([]byte, 65536), make([]byte, 65536)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(data)
	for _, size := range sizes {
		_, err := conn.Write(data[:size])
		require.NoError(t, err, "%d bytes", size)
		got := 0
		for first := true; first || got < size; first = false {
			n, _, err := server.ReadFrom(b)
			require.NoError(t, err, "%d of %d bytes by UDP to %s", got, size, address)
			require.True(t, bytes.Equal(data[got:got+n], b[:n]), "%d bytes from %d by UDP", n, got)
			got += n
			if segment != 0 && got < size {
				require.Equal(t, segment, n)
			}
		}
		require.Equal(t, size, got)
	}
}

// Real packets of every kind pass Check and arrive, with offloads and without, at several MTUs.
func TestTraffic(t *testing.T) {
	needDevice(t)
	if !inside(t) {
		return
	}
	for _, mtu := range []int{1500, 9000, 65520} {
		for _, plain := range []bool{false, true} {
			t.Run(fmt.Sprintf("MTU %d, plain %v", mtu, plain), func(t *testing.T) {
				c := newCable(t, mtu, plain, nil)
				for _, address := range []string{"10.77.8.2", "fd77::2"} {
					c.stream(t, address, 3_000_000)
					c.datagrams(t, address, 0, 0, 1, 2, 3, 64, 1000, 1452, 1453, 1500, 9000, 65000, 65507)
					c.datagrams(t, address, 1000, 1001, 20_000, 64_000)
				}
				s, offloads := &c.seen, c.near.Offloads()
				t.Logf("offloads %v: TSO %d + %d, USO %d + %d, checksum only %d, complete %d, largest %d", offloads,
					s.tcp4.Load(), s.tcp6.Load(), s.udp4.Load(), s.udp6.Load(), s.partial.Load(), s.complete.Load(), s.largest.Load())
				assert.Zero(t, s.refused.Load())
				assert.LessOrEqual(t, s.largest.Load(), int64(max(MaxSuperPacket, mtu)))
				if plain {
					assert.Zero(t, s.tcp4.Load()+s.tcp6.Load()+s.udp4.Load()+s.udp6.Load()+s.partial.Load())
					assert.LessOrEqual(t, s.largest.Load(), int64(mtu))
				} else if mtu < MaxPacket/2 {
					assert.Positive(t, min(s.tcp4.Load(), s.tcp6.Load(), s.partial.Load()), "the kernel uses the offloads %v", offloads)
					assert.Equal(t, offloads&USO != 0, min(s.udp4.Load(), s.udp6.Load()) > 0)
				}
				k, err := c.near.Counters()
				require.NoError(t, err)
				assert.Greater(t, k.SentBytes, uint64(6_000_000), "%+v", k)
				assert.Positive(t, k.ReceivedPackets, "%+v", k)
			})
		}
	}
}
