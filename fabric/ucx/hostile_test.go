//go:build linux && (amd64 || arm64)

package ucx

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nicless/nicless/fabric/ucx/ucxtest"
	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/board"
	"github.com/stretchr/testify/require"
)

// A stranger meets a carrier as a test wants, and speaks UCX as it wants (carrier/check/stranger.c).
type stranger struct {
	t      *testing.T
	in     io.WriteCloser
	out    chan string
	own    offer // what it offers
	theirs offer
	wire   *wire
}

// newStranger starts the program. Its offer has its own worker address and doors.
func newStranger(t *testing.T) *stranger {
	_, program, _ := ucxtest.Checks(t)
	c := exec.Command(program)
	c.Env = []string{"UCX_TLS=tcp,self", "UCX_NET_DEVICES=lo"}
	in, err := c.StdinPipe()
	require.NoError(t, err)
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	s := &stranger{t: t, in: in, out: make(chan string, 1000)}
	go func() {
		defer close(s.out)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			s.out <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	s.own = goodOffer()
	s.own.doors = nil
	for b := s.bytes("doors "); len(b) >= doorSize; b = b[doorSize:] {
		s.own.doors = append(s.own.doors, doorName(b))
	}
	s.own.worker = s.bytes("worker ")
	return s
}

// goodOffer is an offer that is accepted. libucp would not take its worker address.
func goodOffer() offer {
	return offer{token: [tokenSize]byte{7}, port: 1, worker: make([]byte, 40), hello: hello{guid: 77, life: 5, mtu: 4096}}
}

func (s *stranger) bytes(prefix string) []byte {
	b, err := hex.DecodeString(strings.TrimPrefix(s.await(prefix), prefix))
	require.NoError(s.t, err)
	return b
}

// dial connects to a carrier's port and sends bytes.
func dial(t testing.TB, address string, b []byte) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	_, err = c.Write(b)
	require.NoError(t, err)
	return c
}

var greeting = preamble{protocol, kindMeeting, 0}.append(nil)

// greet meets a carrier without keys, up to the offers.
func greet(t testing.TB, address string) *wire {
	t.Helper()
	c := dial(t, address, greeting)
	await.Deadline(t, c)
	answer := make([]byte, preambleSize)
	_, err := io.ReadFull(c, answer)
	require.NoError(t, err)
	require.Equal(t, greeting, answer)
	return &wire{conn: c, read: c}
}

// meet offers what it has, and makes an endpoint with what it gets.
func (s *stranger) meet(address string) {
	s.t.Helper()
	s.wire = greet(s.t, address)
	require.NoError(s.t, s.wire.send(frameOffer, s.own.append(nil)))
	var err error
	s.theirs, err = s.wire.readOffer()
	require.NoError(s.t, err)
	s.reach(address)
}

// reach gives the program the address of the carrier. It makes an endpoint.
func (s *stranger) reach(address string) {
	s.t.Helper()
	a, err := net.ResolveTCPAddr("tcp", address)
	require.NoError(s.t, err)
	var b []byte
	for _, n := range []int{len(s.theirs.doors), len(s.theirs.tickets), len(s.theirs.worker), 0} {
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	to := nameOf(a.AddrPort())
	b = append(b, to[:]...)
	for _, d := range s.theirs.doors {
		b = append(b, d[:]...)
	}
	for _, t := range s.theirs.tickets {
		b = append(b, t[:]...)
	}
	_, err = s.in.Write(append(b, s.theirs.worker...))
	require.NoError(s.t, err)
}

// send sends an active message.
func (s *stranger) send(id, flags uint32, header, data []byte) {
	b := binary.LittleEndian.AppendUint32(nil, id)
	for _, n := range []uint32{flags, uint32(len(header)), uint32(len(data))} {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	_, err := s.in.Write(append(append(b, header...), data...))
	require.NoError(s.t, err)
}

// await waits for a line that begins with this.
func (s *stranger) await(prefix string) string {
	s.t.Helper()
	for {
		line := await.Receive(s.t, "a line that begins with "+prefix, s.out)
		require.NotEmpty(s.t, line, "the stranger has ended")
		if strings.HasPrefix(line, prefix) {
			return line
		}
	}
}

const amSay, amPacket = 22, 23

// prefix is what precedes each message to the carrier, with credits that it may use.
func (s *stranger) prefix(more ...uint64) []byte {
	b := append([]byte(nil), s.theirs.token[:]...)
	for _, w := range append([]uint64{1000, 1 << 30}, more...) {
		b = be.AppendUint64(b, w)
	}
	return b
}

// up makes the connection complete.
func (s *stranger) up(a *Carrier, address string) {
	s.t.Helper()
	s.meet(address)
	s.send(amSay, 0, s.prefix(1<<32), nil)
	s.await("22 ")
	await.Until(s.t, "the stranger is a peer", func() bool { return peerUp(a, s.own.hello.guid) }, func() any { return a.Peers() })
}

// A record is a log.
type record struct {
	mu sync.Mutex
	b  []byte
}

func (r *record) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.b = append(r.b, b...)
	return len(b), nil
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return string(r.b)
}

func (r *record) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.b = nil
}

// dropsOf returns how many connections were dropped because of something.
func (c *Carrier) dropsOf(why cause) uint64 { return c.strangers.counts[why].Load() }

// closed waits until the carrier closes a connection.
func closed(t testing.TB, c net.Conn) {
	t.Helper()
	await.Deadline(t, c)
	_, err := io.Copy(io.Discard, c)
	if e, ok := err.(net.Error); ok {
		require.False(t, e.Timeout(), "the carrier has not closed the connection")
	}
}

// Engines that meet, and send what is not valid or not possible:
// they get the reason, and other peers notice no change.
func TestStrangersOffer(t *testing.T) {
	said := &record{}
	a, b, address := pair(t, Config{Log: slog.New(slog.NewTextHandler(said, nil))}, Config{})
	pid, _ := a.Process()
	bad := func(change func(o *offer)) []byte {
		o := goodOffer()
		change(&o)
		return o.append(nil)
	}
	good := goodOffer()
	cut := func(n int) []byte { return good.append(nil)[:n] }
	badList := func(n uint32, list []byte) []byte {
		h := good.append(nil)
		be.PutUint32(h[offerHead+len(good.worker)+28:], n)
		return append(h, list...)
	}
	unsorted, _ := board.Append(nil, []board.Entry{{Client: 0, Value: "x"}}, board.Max)
	with := func(at int, b ...byte) []byte {
		o := good.append(nil)
		copy(o[at:], b)
		return o
	}
	for name, body := range map[string][]byte{
		"nothing; offer of 0 bytes":                     {},
		"half an offer; an offer of 20 bytes":           cut(20),
		"no hello; hello of 0 bytes":                    cut(offerHead + 40),
		"half a hello; hello of 50 bytes":               cut(offerHead + 90),
		"no token; without a token":                     with(0, 0),
		"no port; without a token or a port":            with(16, 0, 0),
		"many doors; with 255 doors":                    with(19, 255),
		"many tickets; 33 tickets":                      with(20, 33),
		"no worker address; worker address of 0":        bad(func(o *offer) { o.worker = nil }),
		"a long worker address; of 65535":               with(22, 0xff, 0xff),
		"a worker address behind the end; of 16384":     with(22, 0x40, 0),
		"many addresses; with 129 addresses":            bad(func(o *offer) { o.hello.addresses = make([]Address, MaxAddresses+1) }),
		"a long list; 8001 bytes of announcements":      badList(8001, nil),
		"announcements behind the end; 929 bytes":       badList(929, nil),
		"wrong announcements; announcement of client 0": badList(19, unsorted),
		"no GUID; GUID is 0":                            bad(func(o *offer) { o.hello.guid = 0 }),
		"no life; life is 0":                            bad(func(o *offer) { o.hello.life = 0 }),
		"a small MTU; MTU is 255":                       bad(func(o *offer) { o.hello.mtu = 255 }),
		"our GUID; of this engine":                      bad(func(o *offer) { o.hello.guid = 1 }),
		"a connected GUID; is connected":                bad(func(o *offer) { o.hello.guid = 2 }),
	} {
		name, why, _ := strings.Cut(name, "; ")
		t.Run(name, func(t *testing.T) {
			said.clear()
			before := a.dropsOf(causeRefused)
			w := greet(t, address)
			require.NoError(t, w.send(frameOffer, body))
			_, err := w.readOffer()
			require.ErrorContains(t, err, "the peer says: refused: ")
			require.ErrorContains(t, err, why)
			closed(t, w.conn)
			await.Until(t, "it is counted and said", func() bool { return a.dropsOf(causeRefused) == before+1 && strings.Contains(said.String(), why) }, func() any { return said.String() })
		})
	}
	require.True(t, peerUp(a.Carrier, 2) && peerUp(b.Carrier, 1), "the others notice nothing")
	exchange(t, a, b, 1)
	after, why := a.Process()
	require.Equal(t, pid, after, why)
}

// isDown waits until the stranger is a peer that is down, for this reason.
func (s *stranger) isDown(a *Carrier, why string) {
	s.t.Helper()
	await.Until(s.t, "it is down, and it is known why: "+why, func() bool {
		for _, p := range a.Peers() {
			if p.GUID == s.own.hello.guid {
				return !p.Up && strings.Contains(p.Why, why)
			}
		}
		return false
	}, func() any { return a.Peers() })
}

// Peers that have met, and send nothing over UCX, or only what is impossible: they are not waited for longer
// than for any new connection. All are waited for at the same time.
func TestStrangersWhoAreSilent(t *testing.T) {
	address := freePort(t)
	a, _ := open(t, 1, Config{Listen: address, Dead: time.Second})
	silent, wrong := newStranger(t), newStranger(t)
	silent.own.hello.guid = 78
	silent.meet(address)
	wrong.meet(address)
	wrong.theirs.token[3]++
	wrong.send(amSay, 0, wrong.prefix(1<<32), nil)
	wrong.send(amPacket, 0, append(wrong.prefix(), make([]byte, 12)...), nil)
	wrong.send(7, 0, make([]byte, 80), make([]byte, 1000))
	for _, s := range []*stranger{silent, wrong} {
		closed(t, s.wire.conn)
		s.isDown(a, "nothing has come from the peer over UCX")
	}
	require.Zero(t, a.Restarts(), a.About())
}

// Peers that have met, and do not keep to what was agreed on: they are disconnected with a reason, and the
// other peers notice no change.
func TestStrangersOverUCX(t *testing.T) {
	ucxtest.NeedUCX(t)
	said := &record{}
	// A stranger that waits for a core is not silent: it sends only what the test gives it.
	a, b, address := pair(t, Config{Dead: mostDead, Log: slog.New(slog.NewTextHandler(said, nil))}, Config{Dead: mostDead})
	type step = func(s *stranger)
	sends := func(id uint32, header func(s *stranger) []byte, data []byte) step {
		return func(s *stranger) {
			s.up(a.Carrier, address)
			s.send(id, 0, header(s), data)
		}
	}
	for name, do := range map[string]step{
		"long headers; a message that is not valid":    sends(amPacket, func(s *stranger) []byte { return append(s.prefix(), make([]byte, 49)...) }, nil),
		"a long payload; a message that is not valid":  sends(amPacket, func(s *stranger) []byte { return append(s.prefix(), make([]byte, 12)...) }, make([]byte, 65536)),
		"megabytes; a message that is not valid":       sends(amPacket, func(s *stranger) []byte { return append(s.prefix(), make([]byte, 12)...) }, make([]byte, 4<<20)),
		"a short message; a message that is not valid": sends(amSay, func(s *stranger) []byte { return s.prefix() }, nil),
		"good-bye; go away": func(s *stranger) {
			s.up(a.Carrier, address)
			require.NoError(t, s.wire.send(frameBye, []byte("\x1b[31m\xff go away")))
		},
		"good-bye of no letters; the peer has closed the link": func(s *stranger) {
			s.up(a.Carrier, address)
			require.NoError(t, s.wire.send(frameBye, nil))
		},
		"another engine; it says that it is another engine now": func(s *stranger) {
			s.up(a.Carrier, address)
			h := s.own.hello
			h.guid++
			require.NoError(t, s.wire.send(frameHello, h.append(nil)))
		},
		"a wrong hello; MTU is 1": func(s *stranger) {
			s.up(a.Carrier, address)
			h := s.own.hello
			h.mtu = 1
			require.NoError(t, s.wire.send(frameHello, h.append(nil)))
		},
		"a frame of no kind; a frame of kind 9": func(s *stranger) {
			s.up(a.Carrier, address)
			require.NoError(t, s.wire.send(9, nil))
		},
		"a frame that is too long; a frame of 65535 bytes": func(s *stranger) {
			s.up(a.Carrier, address)
			_, err := s.wire.conn.Write([]byte{0xff, 0xff})
			require.NoError(t, err)
		},
		"too many packets; more than it was allowed to": func(s *stranger) {
			// The ring of engine 1 is not emptied meanwhile, so no new credits come.
			s.up(a.Carrier, address)
			for range 1024 + 256 + 1 {
				s.send(amPacket, 0, append(s.prefix(), make([]byte, 12)...), nil)
			}
		},
	} {
		name, why, _ := strings.Cut(name, "; ")
		t.Run(name, func(t *testing.T) {
			s := newStranger(t)
			do(s)
			closed(t, s.wire.conn)
			s.isDown(a.Carrier, why)
			require.True(t, peerUp(a.Carrier, 2) && peerUp(b.Carrier, 1), "the others notice nothing")
			require.NotContains(t, said.String(), "\x1b")
		})
	}
	drain(a)
	exchange(t, a, b, 1)
	require.Zero(t, a.Restarts(), a.About())
}

// Garbage at the port: the process does not even see it, and packets travel on.
func TestGarbageAtThePort(t *testing.T) {
	said := &record{}
	a, b, address := pair(t, Config{Log: slog.New(slog.NewTextHandler(said, nil))}, Config{})
	before, _ := a.Process()
	rng := rand.New(rand.NewPCG(3, 4))
	garbage := [][]byte{
		bytes.Repeat([]byte{0xff}, 64), nil, []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		{0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 0}, // TLS
		// TCP of libuct.
		words(0x12345678cafebabe, 1, 2, 3, 4, 5, 6, 7), words(0xcafebabe12345678, 1, 2, 3, 4, 5, 6, 7),
		preamble{protocol, 9, 0}.append(nil), preamble{2, kindMeeting, 0}.append(nil),
		append(preamble{protocol, kindSocket, 0}.append(nil), make([]byte, ticketSize+doorSize+100)...),
		append(greeting[:len(greeting):len(greeting)], 0xff, 0xff), append(greeting[:len(greeting):len(greeting)], 0, 0),
	}
	for i := range 150 {
		junk := garbage[i%len(garbage)]
		if i >= 100 {
			junk = make([]byte, rng.IntN(1+1<<(i%14)))
			for j := range junk {
				junk[j] = byte(rng.Uint32())
			}
		}
		c, err := net.Dial("tcp", address)
		require.NoError(t, err)
		_, _ = c.Write(junk)
		if i%2 == 0 {
			require.NoError(t, c.Close())
		} else {
			defer c.Close()
		}
		if i%10 == 0 {
			exchange(t, a, b, byte(i))
		}
	}
	await.Until(t, "each is counted", func() bool {
		return a.dropsOf(causeJunk)+a.dropsOf(causeSlow)+a.dropsOf(causeTooMany)+a.dropsOf(causeVersion)+a.dropsOf(causeTicket)+a.dropsOf(causeRefused) >= 150
	}, func() any { return a.About() })
	for why := range causes {
		require.LessOrEqual(t, strings.Count(said.String(), "so far"), int(causes), "the log has one line for each cause: %d", why)
	}
	exchange(t, a, b, 1)
	after, why := a.Process()
	require.Equal(t, before, after, why)
	require.Contains(t, a.About(), "no greeting")
	require.Zero(t, a.Restarts())
}

func words(v ...uint64) (b []byte) {
	for _, w := range v {
		b = be.AppendUint64(b, w)
	}
	return b
}

// A stranger fills all places of connections whose meeting
// is not over, and sends nothing: others meet all the same.
func TestManyWhoSayNothing(t *testing.T) {
	address := freePort(t)
	a, _ := open(t, 1, Config{Listen: address})
	for range 3 * mostPending {
		dial(t, address, greeting[:4])
	}
	b, _ := open(t, 2, Config{Connect: []string{address}})
	upTo(t, a, 2)
	upTo(t, b, 1)
	require.Positive(t, a.dropsOf(causeTooMany))
	await.Until(t, "the rest is dropped", func() bool { return a.dropsOf(causeTooMany)+a.dropsOf(causeSlow) >= 3*mostPending }, func() any { return a.About() })
}

// A stranger meets again and again, and sends nothing over UCX: others find a place all the same.
func TestManyWhoMeet(t *testing.T) {
	address := freePort(t)
	a, _ := open(t, 1, Config{Listen: address})
	d, ctx := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 9)}}, await.Context(t)
	good := goodOffer()
	for range meetings - 28 {
		c, err := d.Dial("tcp", address)
		require.NoError(t, err)
		context.AfterFunc(ctx, func() { _ = c.Close() })
		_, err = c.Write(greeting)
		require.NoError(t, err)
		_, err = io.ReadFull(c, make([]byte, preambleSize))
		require.NoError(t, err)
		w := &wire{conn: c, read: c}
		require.NoError(t, w.send(frameOffer, good.append(nil)))
		_, _ = w.readOffer() // with no place left, it is refused
	}
	log := new(lines)
	b, _ := open(t, 2, Config{Connect: []string{address}, Log: slog.New(slog.NewTextHandler(log, nil))})
	upTo(t, a, 2)
	upTo(t, b, 1)
	require.Zero(t, log.count("not connected"), "the first attempt has found a place:\n%v", log)
}

// An address that peer= does not allow cannot even begin.
func TestPeersOnly(t *testing.T) {
	cfg, err := Parse("listen=" + freePort(t) + ",peer=10.0.0.0/8,peer=fd00::/8,peer=127.0.0.2")
	require.NoError(t, err)
	a, _ := open(t, 1, cfg)
	for range 3 {
		if c, err := net.Dial("tcp", cfg.Listen); err == nil { // else it was reset at once
			closed(t, c)
			_ = c.Close()
		}
	}
	await.Until(t, "they are counted", func() bool { return a.dropsOf(causeAddress) == 3 })
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	c, err := d.Dial("tcp", cfg.Listen)
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Write(greeting)
	require.NoError(t, err)
	_, err = io.ReadFull(c, make([]byte, preambleSize))
	require.NoError(t, err)
	require.EqualValues(t, 3, a.dropsOf(causeAddress))
	for _, s := range []string{"10.0.0.1/8", "10.0.0.0/33", "x", "", "fe80::1%lo"} {
		_, err := Parse("h:1,peer=" + s)
		require.ErrorContains(t, err, "prefix", s)
	}
}

// A connection for libucx needs a ticket of an engine whose meeting is over, and each ticket admits one.
func TestTickets(t *testing.T) {
	a, b, address := pair(t, Config{}, Config{})
	var ticket [ticketSize]byte
	a.mu.Lock()
	for first := range a.tickets {
		ticket = first
		break
	}
	door := a.process.doors[0]
	a.mu.Unlock()
	socket := func(ticket [ticketSize]byte, door doorName) net.Conn {
		return dial(t, address, append(append(preamble{protocol, kindSocket, 0}.append(nil), ticket[:]...), door[:]...))
	}
	wrong, other := ticket, door
	wrong[0]++
	other[2]++
	for i, c := range []net.Conn{socket(wrong, door), socket(ticket, other)} {
		closed(t, c)
		await.Until(t, "it is counted", func() bool { return a.dropsOf(causeTicket) >= uint64(i+1) })
	}
	first := socket(ticket, door)
	await.Until(t, "it is admitted", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		_, there := a.tickets[ticket]
		return !there
	})
	closed(t, socket(ticket, door))
	await.Until(t, "it is counted", func() bool { return a.dropsOf(causeTicket) == 3 })
	require.NoError(t, first.Close())
	exchange(t, a, b, 1)
	require.NoError(t, b.Close())
	await.Until(t, "no ticket outlives its connection", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return len(a.tickets) == 0
	})
}

// A peer's worker address is not valid. libucp may crash when it reads it: that costs one restart, the other
// peers come back at once, and the one is refused for a while.
func TestGarbageWorkerAddress(t *testing.T) {
	a, b, address := pair(t, Config{}, Config{})
	rng := rand.New(rand.NewPCG(5, 6))
	crashed := false
	for i := range 20 {
		s := newStranger(t)
		worker := append([]byte(nil), s.own.worker...)
		switch {
		case i == 0:
			worker = bytes.Repeat([]byte{0xff}, 200)
		case i%2 == 0:
			worker = worker[:leastWorker+rng.IntN(len(worker)-leastWorker)]
		default:
			for range 1 + i/3 {
				worker[rng.IntN(len(worker))] = byte(rng.Uint32())
			}
		}
		real := s.own.worker
		s.own.worker = worker
		before := a.Restarts()
		s.own.hello.guid = uint64(100 + i)
		s.wire = greet(t, address)
		require.NoError(t, s.wire.send(frameOffer, s.own.append(nil)))
		theirs, err := s.wire.readOffer()
		if crashed {
			require.ErrorContains(t, err, errBanned.Error())
			break
		}
		require.NoError(t, err)
		s.theirs, s.own.worker = theirs, real
		s.reach(address)
		s.send(amSay, 0, s.prefix(1<<32), nil)
		closed(t, s.wire.conn)
		if a.Restarts() > before {
			crashed = true
			upTo(t, b.Carrier, 1)
			require.Zero(t, a.dropsOf(causeBanned), "a peer that was there before is not refused with the one at its address")
		}
	}
	require.True(t, crashed, "libucp has read all of them; then this test shows nothing")
	exchange(t, a, b, 1)
	require.Contains(t, a.About(), "restarts: 1 (1 ")
	await.Until(t, "it is counted", func() bool { return a.dropsOf(causeBanned) == 1 })
}

// Messages of the process are parsed strictly, and so are those of peers.
func FuzzMessage(f *testing.F) {
	h := hello{guid: 1, life: 2, mtu: 4096, name: "n", addresses: []Address{{LID: 3}}, sequence: 4, announced: []board.Entry{{Client: 1, User: 1000, Value: "x"}}}
	f.Add(h.append(nil))
	o := goodOffer()
	o.doors, o.tickets, o.hello = []doorName{{1: 4}}, [][ticketSize]byte{{1}, {2}}, h
	f.Add(o.append(nil))
	f.Add(greeting)
	for _, m := range []message{{kind: msgReady, b: 1, body: make([]byte, doorSize+leastWorker)}, {kind: msgUp, number: 1}, {kind: msgGone, number: 1, body: []byte("x")}} {
		f.Add(m.append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := parseMessage(b); err == nil {
			require.Equal(t, b, m.append(nil))
		}
		if h, err := parseHello(b); err == nil {
			again, err := parseHello(h.append(nil))
			require.NoError(t, err)
			require.Equal(t, h.addresses, again.addresses)
			require.Equal(t, h.announced, again.announced)
			require.Equal(t, [4]uint64{h.guid, h.life, uint64(h.mtu), uint64(h.sequence)}, [4]uint64{again.guid, again.life, uint64(again.mtu), uint64(again.sequence)})
		}
		if o, err := parseOffer(b); err == nil {
			again, err := parseOffer(o.append(nil))
			require.NoError(t, err)
			again.hello.name = o.hello.name // it is quoted if it is not plain
			require.Equal(t, o, again)
		}
		if len(b) == preambleSize {
			if p, err := parsePreamble(b); err == nil {
				require.Equal(t, b, p.append(nil))
			}
		}
	})
}

// A process that sends a wrong message is killed, and started again.
func TestHostileProcess(t *testing.T) {
	c, _ := bare(t)
	for i, b := range [][]byte{nil, make([]byte, 31), make([]byte, 32), make([]byte, maxMessage+1),
		(&message{kind: msgUp}).append(nil), (&message{kind: msgUp, number: 1, body: []byte{1}}).append(nil),
		(&message{kind: msgReady, b: 1 << 60, body: make([]byte, 100)}).append(nil), (&message{kind: msgReady, b: 2, body: make([]byte, 2*doorSize)}).append(nil),
		(&message{kind: msgReady, body: make([]byte, maxWorker+1)}).append(nil),
		(&message{kind: msgGone}).append(nil), (&message{kind: msgGone, body: []byte("x")}).append(nil), (&message{kind: 99}).append(nil)} {
		_, err := parseMessage(b)
		require.ErrorIs(t, err, errMessage, "%d", i)
	}
	// Numbers of connections that do not exist.
	for _, m := range []message{{kind: msgUp, number: 9}, {kind: msgGone, number: 9, body: []byte("x")}, {kind: msgCounts, number: 9, a: 1}, {kind: msgTry, number: 9}} {
		c.handle(c.process, &m)
	}
	c.blame(c.process, true)
	require.Empty(t, c.Peers())
	require.Empty(t, c.bans)
}

func TestParse(t *testing.T) {
	cfg, err := Parse("node7:7471,[::1]:9,listen=0.0.0.0:7471,mtu=4096,slots=64,data=65536,dead=500ms,spin=1us,library=/x,tls=tcp+self,devices=eth0")
	require.NoError(t, err)
	require.Equal(t, Config{Listen: "0.0.0.0:7471", Connect: []string{"node7:7471", "[::1]:9"}, MTU: 4096, Slots: 64, Data: 65536,
		Dead: 500 * time.Millisecond, Spin: time.Microsecond, Library: "/x", Env: []string{"UCX_TLS=tcp,self", "UCX_NET_DEVICES=eth0"}}, cfg)
	for _, s := range []string{"", "node7", ":7471", "node7:", "listen=x", "listen=1.2.3.4:x", "a:1,mtu=255", "a:1,mtu=258", "a:1,mtu=70000", "a:1,mtu=x", "a:1,slots=3", "a:1,data=100",
		"a:1,dead=1ms", "a:1,dead=x", "a:1,what=1", "a:1,data=65536,mtu=65400" + strings.Repeat(",a:1", maxTargets), "a:1,encrypt", "a:1,auth=required", "a:1,trust=first"} {
		_, err := Parse(s)
		require.Error(t, err, s)
		require.True(t, strings.HasPrefix(err.Error(), "ucx: "), fmt.Sprint(err))
	}
}
