//go:build linux && (amd64 || arm64)

package ucx

import (
	"bufio"
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
	"github.com/nicless/nicless/internal/board"
	"github.com/stretchr/testify/require"
)

// A stranger speaks UCX, and whatever a test wants (carrier/check/stranger.c).
type stranger struct {
	t    *testing.T
	in   io.WriteCloser
	out  chan string
	here uint64 // token that the carrier wants
}

func newStranger(t *testing.T, program, address string) *stranger {
	host, port, _ := net.SplitHostPort(address)
	c := exec.Command(program, host, port)
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
	return s
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
	late := time.After(20 * time.Second)
	for {
		select {
		case line, ok := <-s.out:
			if !ok {
				require.FailNow(s.t, "the stranger has ended")
			}
			if strings.HasPrefix(line, prefix) {
				return line
			}
		case <-late:
			require.FailNow(s.t, "nothing has come that begins with "+prefix)
		}
	}
}

const (
	amHello, amSay, amPacket = 21, 22, 23
	replyFlag                = 1
	magic                    = 0x4e49434c45535355
)

func words(v ...uint64) (b []byte) {
	for _, w := range v {
		b = be.AppendUint64(b, w)
	}
	return b
}

// greet says a good hello, and waits for the carrier's and for its acceptance.
func (s *stranger) greet(guid uint64) {
	h := hello{guid: guid, life: 5, mtu: 4096}
	s.send(amHello, replyFlag, words(magic, 2<<32, 77), h.append(nil))
	b, err := hex.DecodeString(strings.TrimPrefix(s.await("21 "), "21 "))
	require.NoError(s.t, err)
	s.here = be.Uint64(b[16:])
	s.await("22 ")
	s.send(amSay, 0, words(s.here, 1000, 1<<30, 1<<32), nil)
}

// badList is a hello that says that it has so many bytes of announcements, behind its head.
func badList(h hello, n uint32, list []byte) []byte {
	b := h.append(nil)
	be.PutUint32(b[28:], n)
	copy(b[helloHeadSize:], list)
	return b
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

// Peers that are not nicless, or do not keep to what was agreed on: they are disconnected, it is said
// why, and the other peers notice nothing.
func TestStrangers(t *testing.T) {
	ucxtest.NeedUCX(t)
	_, program := ucxtest.Checks(t)
	said := &record{}
	a, b, address := pair(t, Config{Log: slog.New(slog.NewTextHandler(said, nil))}, Config{})
	good := hello{guid: 77, life: 5, mtu: 4096}
	bad := func(change func(h *hello)) []byte {
		h := good
		change(&h)
		return h.append(nil)
	}
	type step = func(s *stranger)
	first := func(header, data []byte) step {
		return func(s *stranger) { s.send(amHello, replyFlag, header, data) }
	}
	later := func(id uint32, header func(s *stranger) []byte, data []byte) step {
		return func(s *stranger) {
			s.greet(77)
			s.send(id, replyFlag, header(s), data)
		}
	}
	t.Run("no hello at all", func(t *testing.T) {
		var all []*stranger
		for _, do := range []step{
			func(*stranger) {},
			func(s *stranger) { s.send(amPacket, 0, make([]byte, 80), make([]byte, 1000)) },
			func(s *stranger) { s.send(7, 0, make([]byte, 80), make([]byte, 1000)) },
		} {
			s := newStranger(t, program, address)
			do(s)
			all = append(all, s)
		}
		for _, s := range all {
			s.await("error")
		}
		eventually(t, "it is said why", func() bool { return strings.Count(said.String(), "does not speak as nicless does") == len(all) }, func() any { return said.String() })
		require.True(t, peerUp(a.Carrier, 2) && peerUp(b.Carrier, 1), "the others notice nothing")
	})
	for name, do := range map[string]step{
		"another magic; does not speak as nicless does":    first(words(1, 2<<32, 77), good.append(nil)),
		"another version; another version of the protocol": first(words(magic, 1<<32, 77), good.append(nil)),
		"a short header; does not speak":                   first(words(magic), nil),
		"a long header; hello is not valid":                first(words(magic, 2<<32, 77, 0), good.append(nil)),
		"no token; hello is not valid":                     first(words(magic, 2<<32, 0), good.append(nil)),
		"no hello; refused":                                first(words(magic, 2<<32, 77), nil),
		"a hello of megabytes; hello is not valid":         first(words(magic, 2<<32, 77), make([]byte, 4<<20)),
		"many addresses; refused":                          first(words(magic, 2<<32, 77), bad(func(h *hello) { h.addresses = make([]Address, MaxAddresses+1) })),
		"a long list of announcements; hello of 1024 bytes with 0 addresses and 8001 bytes of announcements": first(words(magic, 2<<32, 77), badList(good, 8001, nil)),
		"announcements behind the end; hello of 1024 bytes with 0 addresses and 929 bytes":                   first(words(magic, 2<<32, 77), badList(good, 929, nil)),
		"wrong announcements; announcement of client 0 after":                                                first(words(magic, 2<<32, 77), badList(good, 9, []byte("\x00\x00\x00\x00\x00\x01xyz"))),
		"no GUID; refused":                             first(words(magic, 2<<32, 77), bad(func(h *hello) { h.guid = 0 })),
		"our GUID; refused":                            first(words(magic, 2<<32, 77), bad(func(h *hello) { h.guid = 1 })),
		"a connected GUID; refused":                    first(words(magic, 2<<32, 77), bad(func(h *hello) { h.guid = 2 })),
		"long headers; a packet that is not valid":     later(amPacket, func(s *stranger) []byte { return append(words(s.here, 9, 9), make([]byte, 49)...) }, nil),
		"a long payload; a packet that is not valid":   later(amPacket, func(s *stranger) []byte { return append(words(s.here, 9, 9), make([]byte, 12)...) }, make([]byte, 65536)),
		"a short message; a message that is not valid": later(amSay, func(s *stranger) []byte { return words(s.here, 9, 9) }, nil),
		"another hello; hello is not valid":            later(amHello, func(s *stranger) []byte { return words(magic, 2<<32, 78) }, good.append(nil)),
		"good-bye; go away":                            later(amSay, func(s *stranger) []byte { return words(s.here, 9, 9, 3<<32) }, []byte("\x1b[31m\xff go away")),
		"good-bye of no letters; the peer has closed":  later(amSay, func(s *stranger) []byte { return words(s.here, 9, 9, 3<<32) }, []byte("\x00 go away")),
		"good-bye twice; go away": func(s *stranger) {
			s.greet(77)
			for _, why := range []string{"go away", "\x00"} {
				s.send(amSay, replyFlag, words(s.here, 9, 9, 3<<32), []byte(why))
			}
		},
		"too many packets; more than it was allowed to": func(s *stranger) {
			// Nobody empties the ring of engine 1 meanwhile, so no new credits come.
			s.greet(77)
			for range 1024 + 256 + 1 {
				s.send(amPacket, 0, append(words(s.here, 9, 9), make([]byte, 12)...), nil)
			}
		},
	} {
		name, why, _ := strings.Cut(name, "; ")
		t.Run(name, func(t *testing.T) {
			said.clear()
			s := newStranger(t, program, address)
			do(s)
			s.await("error")
			eventually(t, "it is down, and it is said why", func() bool { return !peerUp(a.Carrier, 77) && strings.Contains(said.String(), why) }, func() any { return said.String() })
			require.True(t, peerUp(a.Carrier, 2) && peerUp(b.Carrier, 1), "the others notice nothing")
		})
	}
	drain(a)
	exchange(t, a, b, 1)
	pid, why := a.Process()
	require.NotZero(t, pid, why)
}

// Bytes of no protocol at the port, and connections that do nothing.
func TestGarbageAtThePort(t *testing.T) {
	a, b, address := pair(t, Config{}, Config{})
	before, _ := a.Process()
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range 40 {
		c, err := net.Dial("tcp", address)
		require.NoError(t, err)
		garbage := make([]byte, rng.IntN(1+1<<(i%14)))
		for i := range garbage {
			garbage[i] = byte(rng.Uint32())
		}
		_, _ = c.Write(garbage)
		if i%2 == 0 {
			require.NoError(t, c.Close())
		} else {
			defer c.Close()
		}
	}
	exchange(t, a, b, 1)
	after, why := a.Process()
	require.Equal(t, before, after, why)
}

// What the process says is parsed strictly, and so is what peers say.
func FuzzMessage(f *testing.F) {
	h := hello{guid: 1, life: 2, mtu: 4096, name: "n", addresses: []Address{{LID: 3}}, sequence: 4, announced: []board.Entry{{Client: 1, User: 1000, Value: "x"}}}
	f.Add(h.append(nil))
	for _, m := range []message{{kind: msgReady, a: 1}, {kind: msgUp, number: 1}, {kind: msgGone, body: []byte("x")}, {kind: msgMet, number: 1, b: 2, body: h.append([]byte("ab"))}} {
		f.Add(m.append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := parseMessage(b); err == nil {
			require.Equal(t, b, m.append(nil))
			if m.kind == msgMet {
				_ = text(m.body[:m.b])
				_, _ = parseHello(m.body[m.b:])
			}
		}
		if h, err := parseHello(b); err == nil {
			again, err := parseHello(h.append(nil))
			require.NoError(t, err)
			require.Equal(t, h.addresses, again.addresses)
			require.Equal(t, h.announced, again.announced)
			require.Equal(t, [4]uint64{h.guid, h.life, uint64(h.mtu), uint64(h.sequence)}, [4]uint64{again.guid, again.life, uint64(again.mtu), uint64(again.sequence)})
		}
	})
}

// A process that says what it must not is killed, and started again.
func TestHostileProcess(t *testing.T) {
	c := &Carrier{peers: map[uint64]*peer{}, conns: map[uint32]*conn{}, cfg: Config{MTU: 4096}.withDefaults(), first: make(chan error, 1), stop: make(chan struct{}), hello: hello{guid: 1}, dev: &testDevice{guid: 1}}
	c.log = c.cfg.Log
	for i, b := range [][]byte{nil, make([]byte, 31), make([]byte, 32), make([]byte, maxMessage+1),
		(&message{kind: msgUp}).append(nil), (&message{kind: msgUp, number: 1, body: []byte{1}}).append(nil),
		(&message{kind: msgMet, number: 1, b: 1 << 63}).append(nil), (&message{kind: msgGone}).append(nil), (&message{kind: 99}).append(nil)} {
		_, err := parseMessage(b)
		require.ErrorIs(t, err, errMessage, "%d", i)
	}
	// Numbers of connections and targets that do not exist.
	for _, m := range []message{{kind: msgUp, number: 9}, {kind: msgGone, number: 9, a: 1 << 40, body: []byte("x")}, {kind: msgCounts, number: 9, a: 1}} {
		c.handle(&process{}, &m)
	}
	require.Empty(t, c.Peers())
}

func TestParse(t *testing.T) {
	cfg, err := Parse("node7:7471,[::1]:9,listen=0.0.0.0:7471,mtu=4096,slots=64,data=65536,dead=500ms,spin=1us,library=/x,tls=tcp+self,devices=eth0")
	require.NoError(t, err)
	require.Equal(t, Config{Listen: "0.0.0.0:7471", Connect: []string{"node7:7471", "[::1]:9"}, MTU: 4096, Slots: 64, Data: 65536,
		Dead: 500 * time.Millisecond, Spin: time.Microsecond, Library: "/x", Env: []string{"UCX_TLS=tcp,self", "UCX_NET_DEVICES=eth0"}}, cfg)
	for _, s := range []string{"", "node7", ":7471", "node7:", "listen=x", "listen=1.2.3.4:x", "a:1,mtu=255", "a:1,mtu=258", "a:1,mtu=70000", "a:1,mtu=x", "a:1,slots=3", "a:1,data=100",
		"a:1,dead=1ms", "a:1,dead=x", "a:1,what=1", "a:1,data=65536,mtu=65400" + strings.Repeat(",a:1", maxTargets)} {
		_, err := Parse(s)
		require.Error(t, err, s)
		require.True(t, strings.HasPrefix(err.Error(), "ucx: "), fmt.Sprint(err))
	}
}
