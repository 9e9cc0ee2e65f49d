//go:build linux && (amd64 || arm64)

package roce

import (
	"fmt"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/freeport"
	"github.com/nicless/nicless/internal/mmsg"
	"github.com/nicless/nicless/internal/packetring"
	"github.com/nicless/nicless/packet"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A wire is how the two ends of a benchmark are connected: two addresses, each with sockets.
type wire struct {
	name     string
	from, to netip.Addr
	open     func(a netip.Addr) *Sockets
}

// wires returns the loopback device, and a pair of veth devices between two network namespaces
// if they can be made: by root, or under unshare -rn.
func wires(b *testing.B) []wire {
	addr := freeport.Loopback(b, 2)
	open := func(a netip.Addr) *Sockets {
		s, err := OpenSockets(a, 1)
		require.NoError(b, err)
		return s
	}
	list := []wire{{"loopback", addr[0], addr[1], open}}
	if here, there := tryNetns(), tryNetns(); here != nil && there != nil {
		spaces := map[netip.Addr]netns{a4: {here}, b4: {there}}
		spaces[a4].do(func() {
			addVeth(b, "a0", "b0", spaces[b4])
			setLink(b, "a0", true, 9000)
			setAddress(b, true, "a0", a4.String()+"/24")
		})
		spaces[b4].do(func() {
			setLink(b, "b0", true, 9000)
			setAddress(b, true, "b0", b4.String()+"/24")
		})
		b.Cleanup(func() { here.Close(); there.Close() })
		list = append(list, wire{"veth", a4, b4, func(a netip.Addr) (s *Sockets) {
			spaces[a].do(func() { s = open(a) })
			return s
		}})
	}
	return list
}

// BenchmarkRoundTrip is a packet and its answer: between two threads that block in recvfrom;
// and between two carriers, whose engines are stand-ins that answer at once, in Arrived.
func BenchmarkRoundTrip(b *testing.B) {
	for _, w := range wires(b) {
		for _, size := range []int{8, 4096} {
			b.Run(fmt.Sprintf("%s/%d/sockets", w.name, size), func(b *testing.B) { pingSockets(b, w, size) })
			for _, m := range modes {
				b.Run(fmt.Sprintf("%s/%d/carriers, %s", w.name, size, m.name), func(b *testing.B) { pingCarriers(b, w, size, Config{Spin: -1}, m) })
			}
			b.Run(fmt.Sprintf("%s/%d/carriers that spin", w.name, size), func(b *testing.B) { pingCarriers(b, w, size, Config{}, modes[0]) })
		}
	}
}

// A quickPort is the port of an engine that answers at once, on the carrier's goroutine.
type quickPort struct {
	enginePort
	answer func(p *packetring.Packet)
	packet packetring.Packet
}

func (q *quickPort) Arrived() {
	for {
		if ok, _ := q.h.port.Receive.Next(&q.packet); !ok {
			return
		}
		q.answer(&q.packet)
		q.h.port.Receive.Free()
	}
}

// post puts a packet with zeros into the ring.
func (h *host) post(header []byte, path uint32, n int) bool {
	head, payload, ok := h.port.Send.Reserve(len(header), n)
	if ok {
		copy(head, header)
		clear(payload)
		h.port.Send.Publish(path)
		h.port.Wake()
	}
	return ok
}

// A mode is what a benchmark's packets have against strangers.
type mode struct {
	name  string
	keys  bool
	items []string // options of the keys
}

var modes = []mode{{"plain", false, nil}, {"authenticated", true, nil}, {"encrypted", true, []string{"encrypt"}}}

// hosts returns the carriers at the ends of a wire.
func (w wire) hosts(b *testing.B, cfg Config, m mode) (x, y *host) {
	if !m.keys {
		return newHost(b, cfg), newHost(b, cfg)
	}
	p, pFile := keys(b, m.items...)
	q, qFile := keys(b, m.items...)
	accept(b, p, pFile, w.to, q)
	accept(b, q, qFile, w.from, p)
	cfg.Auth = p
	x = newHost(b, cfg)
	cfg.Auth = q
	return x, newHost(b, cfg)
}

// between starts two carriers at the ends of a wire, with engines that answer at once.
func (w wire) between(b *testing.B, cfg Config, m mode, atX, atY func(x, y *host, p *packetring.Packet)) (x *host, path uint32, end func()) {
	cfg.Threads = 1
	x, y := w.hosts(b, cfg, m)
	require.NoError(b, y.Start(&quickPort{enginePort: enginePort{y}, answer: func(p *packetring.Packet) { atY(x, y, p) }}))
	require.NoError(b, x.Start(&quickPort{enginePort: enginePort{x}, answer: func(p *packetring.Packet) { atX(x, y, p) }}))
	require.NoError(b, x.AddSockets(w.open(w.from)))
	require.NoError(b, y.AddSockets(w.open(w.to)))
	y.to(w.to, w.from)
	path = x.to(w.from, w.to).Number
	if m.keys {
		x.session(w.to)
		y.session(w.from)
	}
	return x, path, func() {
		b.StopTimer()
		require.NoError(b, x.Close())
		require.NoError(b, y.Close())
	}
}

func pingCarriers(b *testing.B, w wire, size int, cfg Config, m mode) {
	header := head(writeOnly, 1)
	left := b.N
	done := make(chan bool, 1)
	x, path, end := w.between(b, cfg, m, func(x, _ *host, p *packetring.Packet) {
		left--
		if left > 0 {
			x.post(header, p.Path, len(p.Payload))
		} else {
			done <- true
		}
	}, func(_, y *host, p *packetring.Packet) { y.post(header, p.Path, len(p.Payload)) })
	defer end()
	b.ResetTimer()
	x.post(header, path, size)
	<-done
}

// bare opens sockets without a carrier. They have no group: among the sockets of a group, the kernel would
// choose by the sender's port, and only a carrier receives from all of them.
func (w wire) bare(a netip.Addr) *Sockets {
	s := w.open(a)
	for _, fd := range s.Group {
		_ = unix.Close(fd)
	}
	s.Group = nil
	return s
}

func pingSockets(b *testing.B, w wire, size int) {
	sx, sy := w.bare(w.from), w.bare(w.to)
	defer sx.Close()
	defer sy.Close()
	for _, fd := range []int{sx.Receive, sy.Receive} {
		require.NoError(b, unix.SetNonblock(fd, false))
	}
	to := func(a netip.Addr) unix.Sockaddr {
		s, _ := sockaddr(a, packet.Port)
		return s
	}
	var done sync.WaitGroup
	done.Go(func() {
		buffer := make([]byte, 8192)
		from := to(w.from)
		for {
			n, _, err := unix.Recvfrom(sy.Receive, buffer, 0)
			if err != nil || n <= 1 {
				return
			}
			_ = unix.Sendto(sy.Send[0], buffer[:n], 0, from)
		}
	})
	message, buffer, there := make([]byte, size+32), make([]byte, 8192), to(w.to)
	for b.Loop() {
		_ = unix.Sendto(sx.Send[0], message, 0, there)
		_, _, _ = unix.Recvfrom(sx.Receive, buffer, 0)
	}
	_ = unix.Sendto(sx.Send[0], message[:1], 0, there)
	done.Wait()
}

const benchWindow = 1 << 20

// BenchmarkStream is one direction with packets of 4 KiB, of which at most 1 MiB is on the way:
// between two carriers, and between GSO sockets: alone, with the copies that carriers and engines make beside
// the kernel's (into the ring of one engine, and into that of the other), and with ICRCs, too.
func BenchmarkStream(b *testing.B) {
	for _, w := range wires(b) {
		b.Run(w.name+"/sockets", func(b *testing.B) { streamSockets(b, w, false, false) })
		b.Run(w.name+"/sockets and copies", func(b *testing.B) { streamSockets(b, w, true, false) })
		b.Run(w.name+"/sockets, copies and ICRCs", func(b *testing.B) { streamSockets(b, w, true, true) })
		for _, m := range modes {
			b.Run(w.name+"/carriers, "+m.name, func(b *testing.B) { streamCarriers(b, w, m) })
		}
	}
}

func streamCarriers(b *testing.B, w wire, m mode) {
	const size, each = 4096, 16 // an acknowledgement for so many packets
	data, ack := head(writeMiddle, 1), head(acknowledge, 1)
	taken, sent, acknowledged := 0, 0, 0
	done := make(chan bool, 1)
	more := func(x *host, path uint32) {
		sent += each
		for range each {
			if !x.post(data, path, size) {
				b.Error("the ring is full")
			}
		}
	}
	x, path, end := w.between(b, Config{Send: packetring.Geometry{Slots: 512, Data: 2 * benchWindow}}, m, func(x, _ *host, p *packetring.Packet) {
		acknowledged += each
		for sent < b.N && sent-acknowledged < benchWindow/size {
			more(x, p.Path)
		}
		if acknowledged == sent {
			done <- true
		}
	}, func(_, y *host, p *packetring.Packet) {
		taken++
		if taken%each == 0 {
			y.post(ack, p.Path, 0)
		}
	})
	defer end()
	b.SetBytes(size)
	b.ResetTimer()
	more(x, path)
	await.Receive(b, "all are acknowledged", done, func() any { return x.Stats() })
}

func streamSockets(b *testing.B, w wire, copies, icrcs bool) {
	sx, sy := w.bare(w.from), w.bare(w.to)
	defer sx.Close()
	defer sy.Close()
	_, err := prepareSend(sx.Send[0], false)
	require.NoError(b, err)
	_, _, err = prepareReceive(sy.Receive, false, bufferWanted)
	require.NoError(b, err)
	require.NoError(b, unix.SetNonblock(sy.Receive, false))
	const size, wireSize, each = 4096, 4096 + packet.BTHSize + packet.ICRCSize, 15
	from, err := boundTo(sx.Send[0])
	require.NoError(b, err)
	flow := packet.MakeFlow(from, netip.AddrPortFrom(w.to, packet.Port))
	var taken, wrong atomic.Int64
	var done sync.WaitGroup
	done.Go(func() {
		buffer, ring := make([]byte, 1<<16), make([]byte, benchWindow)
		at := 0
		for {
			n, _, err := unix.Recvfrom(sy.Receive, buffer, 0)
			if err != nil || n <= 1 {
				return
			}
			for i := range n / wireSize {
				p := buffer[i*wireSize:][:wireSize]
				if icrcs {
					if checked, _ := flow.Check(p, uint16(i)); checked != 32 {
						wrong.Add(1)
					}
				}
				if copies {
					copy(ring[at%len(ring):], p[packet.BTHSize:][:size])
					at += size
				}
			}
			taken.Add(int64(n / wireSize))
		}
	})
	const messageSize = each * wireSize
	memory := make([]byte, 2*benchWindow/messageSize*messageSize)
	place := 0
	message := memory[:messageSize]
	control := mmsg.AppendInt(nil, unix.IPPROTO_UDP, udpSegment, 2, wireSize)
	to, _ := sockaddr(w.to, packet.Port)
	b.SetBytes(size)
	sent, due := int64(0), int64(0)
	wait := func(below int64) {
		for range looks {
			if sent-taken.Load() < below {
				return
			}
			runtime.Gosched()
		}
		await.Until(b, "datagrams arrive", func() bool { return sent-taken.Load() < below })
	}
	for b.Loop() {
		due++
		if due%each == 0 {
			wait(benchWindow / size)
			if copies {
				message = memory[place:][:messageSize]
				place = (place + messageSize) % len(memory)
				clear(message)
			}
			for i := 0; i < each && icrcs; i++ {
				flow.Seal(message[i*wireSize:][:wireSize], uint16(i))
			}
			_, err := unix.SendmsgN(sx.Send[0], message, control, to, 0)
			if err != nil {
				b.Fatal(err)
			}
			sent += each
		}
	}
	wait(1)
	_ = unix.Sendto(sx.Send[0], message[:1], 0, to)
	done.Wait()
	require.Zero(b, wrong.Load(), "packets with a wrong ICRC")
}

// BenchmarkPacket is the cost of a packet in batches of 64, in one thread: sealing and the
// system call of sending, the system call of receiving, and checking.
func BenchmarkPacket(b *testing.B) {
	for _, w := range wires(b) {
		for _, size := range []int{0, 64, 1024, 4096} {
			b.Run(fmt.Sprintf("%s/%d", w.name, size), func(b *testing.B) { packetCost(b, w, size) })
		}
	}
}

func packetCost(b *testing.B, w wire, size int) {
	x, y := newHost(b, Config{}), newHost(b, Config{})
	stopped(b, x)
	stopped(b, y)
	require.NoError(b, x.AddSockets(w.open(w.from)))
	require.NoError(b, y.AddSockets(w.open(w.to)))
	path := x.to(w.from, w.to).Number
	y.to(w.to, w.from)
	h, payload := head(writeMiddle, 1), content(size, 1)
	const batch = 64
	var seal, send, receive, judge time.Duration
	var p packetring.Packet
	for b.Loop() {
		for range batch {
			header, place, _ := x.port.Send.Reserve(len(h), size)
			copy(header, h)
			copy(place, payload)
			x.port.Send.Publish(path)
		}
		s, r := x.sender, y.receiver
		for s.ready() {
			t0 := time.Now()
			s.take()
			s.make(0)
			t1 := time.Now()
			s.flush()
			t2 := time.Now()
			s.ring.Free()
			s.n = 0
			seal, send = seal+t1.Sub(t0), send+t2.Sub(t1)
		}
		for got := 0; got < batch; {
			t0 := time.Now()
			l := (*y.locals.Load())[0]
			n, _ := mmsg.Receive(l.receiver, r.messages[:])
			t1 := time.Now()
			r.from, r.n, r.at, r.begun = l, n, 0, false
			for r.n > 0 {
				r.checked = 0
				r.deliver()
			}
			t2 := time.Now()
			receive, judge = receive+t1.Sub(t0), judge+t2.Sub(t1)
			for {
				if ok, _ := y.port.Receive.Next(&p); !ok {
					break
				}
				got++
			}
			y.port.Receive.Free()
		}
	}
	each := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / float64(b.N*batch) }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(each(seal), "seal-ns")
	b.ReportMetric(each(send), "send-ns")
	b.ReportMetric(each(receive), "receive-ns")
	b.ReportMetric(each(judge), "judge-ns")
}
