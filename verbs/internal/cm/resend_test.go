//go:build linux && (amd64 || arm64)

package cm

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The time that a REQ and a REP are given.
const (
	reqTime = (4096 + 2*256) * time.Millisecond
	repTime = 4096 * time.Millisecond
)

// loses returns a function that loses the messages of a type while *on is true.
func loses[M Message](on *bool) func(Message) bool {
	return func(msg Message) bool {
		_, is := msg.(M)
		return is && *on
	}
}

// Each message that waits for an answer is sent sixteen times, and then the program gets the event
// that Linux gives it.
func TestUnanswered(t *testing.T) {
	yes := true
	t.Run("REQ", func(t *testing.T) {
		w := newWorld(t, 2)
		client, server, _ := w.pair()
		w.eat = loses[*REQ](&yes)
		a := client.resolved(abi.CMPSTCP, 1, inet("10.0.0.2", 7000))
		require.Zero(t, client.connect(a, ""))
		w.next(client, unreachable, 1, failed(unix.ETIMEDOUT))
		require.Equal(t, 16*reqTime, w.now)
		require.Len(t, messages[*REQ](w), 16)
		require.Equal(t, WireStats{Sent: 1, Resent: 15}, client.m.WireStats())
		require.Contains(t, strings.Join(w.said(), "\n"), "10.0.0.2:7000 has not answered 16 messages of the connection manager, each of which it had 4.608s for")
		w.ends(client, server)
		require.Len(t, w.sent, 16, "nothing is left to say")
	})
	t.Run("SIDR_REQ", func(t *testing.T) {
		w := newWorld(t, 2)
		client, server, _ := w.pair()
		w.eat = loses[*SIDRREQ](&yes)
		a := client.resolved(abi.CMPSUDP, 1, inet("10.0.0.2", 7000))
		require.Zero(t, client.connect(a, ""))
		w.next(client, unreachable, 1, failed(unix.ETIMEDOUT))
		require.Equal(t, 16*repTime, w.now)
		w.ends(client, server)
	})
	t.Run("REP", func(t *testing.T) {
		w := newWorld(t, 2)
		client, server, _ := w.pair()
		w.eat = loses[*REP](&yes)
		a := client.resolved(abi.CMPSTCP, 1, inet("10.0.0.2", 7000))
		require.Zero(t, client.connect(a, ""))
		require.Zero(t, server.accept(idOf(w.next(server, connectRequest, 100, 0)), 2, params(1, "")))
		w.next(server, unreachable, 2, failed(unix.ETIMEDOUT))
		w.next(client, unreachable, 1, failed(unix.ETIMEDOUT))
		require.Len(t, messages[*REP](w), 16+14, "by the timer, and for each REQ that came again meanwhile")
		w.ends(client, server)
	})
	t.Run("DREQ", func(t *testing.T) {
		w := newWorld(t, 2)
		client, server, active, _ := w.farPair()
		began := w.now
		w.eat = loses[*DREQ](&yes)
		client.ok(abi.CMCmdDisconnect, 0, words(active))
		w.next(client, disconnected, 1, failed(unix.ETIMEDOUT))
		require.Equal(t, 16*reqTime, w.now-began)
		server.quiet()
		w.next(client, timewaitExit, 1, 0)
		w.ends(client, server)
	})
}

// Where only one answer is lost, the message that asks for it brings it again.
func TestAnswersComeAgain(t *testing.T) {
	w := newWorld(t, 2)
	client, server, _ := w.pair()
	lose := true
	w.eat = loses[*REJ](&lose)
	a := client.resolved(abi.CMPSTCP, 1, inet("10.0.0.2", 7000))
	require.Zero(t, client.connect(a, ""))
	req := make([]byte, abi.CMRejectSize)
	le.PutUint32(req[abi.CMRejectID:], idOf(w.next(server, connectRequest, 100, 0)))
	server.ok(abi.CMCmdReject, 0, req)
	w.run(time.Second)
	lose = false
	w.next(client, rejected, 1, int32(rejConsumer))
	server.quiet()
	require.Len(t, messages[*REJ](w), 2)

	w.eat = loses[*RTU](&lose)
	lose = true
	a = client.resolved(abi.CMPSTCP, 2, inet("10.0.0.2", 7000))
	require.Zero(t, client.connect(a, ""))
	passive := idOf(w.next(server, connectRequest, 100, 0))
	require.Zero(t, server.accept(passive, 3, params(1, "")))
	w.next(client, connectResponse, 2, 0)
	require.Zero(t, client.accept(a, 0, none))
	w.run(time.Second)
	server.quiet()
	lose = false
	w.next(server, established, 3, 0)
	require.Len(t, messages[*REP](w), 2)

	w.eat = loses[*DREP](&lose)
	lose = true
	client.ok(abi.CMCmdDisconnect, 0, words(a))
	w.next(server, disconnected, 3, 0)
	client.quiet()
	server.destroy(passive) // even if the end is gone
	w.run(3 * time.Second)
	require.Zero(t, server.m.detachedLinks)
	lose = false
	w.next(client, disconnected, 2, 0)
	w.ends(client, server)
}

// A program that takes its time to accept, or to confirm, is waited for.
func TestSlowPrograms(t *testing.T) {
	w := newWorld(t, 2)
	client, server, _ := w.pair()
	a := client.resolved(abi.CMPSTCP, 1, inet("10.0.0.2", 7000))
	require.Zero(t, client.connect(a, ""))
	passive := idOf(w.next(server, connectRequest, 100, 0))
	w.run(10 * time.Minute)
	require.Zero(t, server.accept(passive, 2, params(1, "")))
	w.next(client, connectResponse, 1, 0)
	w.run(10 * time.Minute)
	require.Zero(t, client.accept(a, 0, none))
	w.next(server, established, 2, 0)
	require.Less(t, len(w.sent), 60)
	require.Equal(t, uint8(serviceTimeout), messages[*MRA](w)[0].Timeout)
	client.quiet()
	w.ends(client, server)

	w = newWorld(t, 2) // but not longer than that: the times of others are bounded
	client, server, _ = w.pair()
	a = client.resolved(abi.CMPSTCP, 1, inet("10.0.0.2", 7000))
	require.Zero(t, client.connect(a, ""))
	passive = idOf(w.next(server, connectRequest, 100, 0))
	w.eat = func(Message) bool { return true }
	q := messages[*REQ](w)[0]
	client.m.ReceiveMAD(w.sent[0].to, w.sent[0].from, newMAD(1, &MRA{From: 9, To: q.From, Received: aboutREP, Timeout: 31})[:], true)
	client.m.ReceiveMAD(w.sent[0].to, w.sent[0].from, newMAD(1, &MRA{From: 9, To: q.From, Timeout: 31})[:], true)
	w.next(client, unreachable, 1, failed(unix.ETIMEDOUT))
	require.Less(t, w.now, 18*time.Minute)
	require.Zero(t, server.accept(passive, 2, params(1, "")))
	w.ends(client, server)
}

// Wherever one end dies, and whatever message is lost then, the other end is notified, and nothing is left
// over.
func TestFarDeath(t *testing.T) {
	for _, lost := range []Message{nil, &REJ{}, &DREQ{}, &DREP{}, &RTU{}, &REP{}} {
		for steps := range 5 {
			for _, dead := range []string{"client", "server"} {
				t.Run(fmt.Sprintf("%s after step %d, %T lost", dead, steps, lost), func(t *testing.T) {
					w := newWorld(t, 2)
					client, server, _ := w.pair()
					active := client.resolved(abi.CMPSTCP, 1, inet("10.0.0.2", 7000))
					require.Zero(t, client.connect(active, ""))
					passive := idOf(w.next(server, connectRequest, 100, 0))
					for step := range steps {
						switch step {
						case 1:
							require.Zero(t, server.accept(passive, 2, params(1, "")))
						case 2:
							w.next(client, connectResponse, 1, 0)
						case 3:
							require.Zero(t, client.accept(active, 0, none))
							w.next(server, established, 2, 0)
						}
					}
					left := 2 // the first ones of the kind
					w.eat = func(msg Message) bool {
						if lost == nil || msg.kind() != lost.kind() || left == 0 {
							return false
						}
						left--
						return true
					}
					if dead == "client" {
						client.close()
						switch {
						case steps < 2: // it gets the end when it accepts, if not before
							w.run(time.Minute)
							if server.accept(passive, 2, params(1, "")) == 0 {
								e := w.last(server, 2)
								require.Equal(t, []uint32{uint32(rejected), uint32(rejNumber)}, e)
							}
						case steps < 4:
							e := w.last(server, 2)
							require.Contains(t, []eventKind{rejected, unreachable, disconnected}, eventKind(e[0]))
						default:
							w.next(server, disconnected, 2, 0)
						}
					} else {
						server.close()
						e := w.last(client, 1)
						require.Contains(t, []eventKind{rejected, disconnected}, eventKind(e[0]))
						if steps < 2 {
							require.Contains(t, []uint32{uint32(rejConsumer), uint32(rejService)}, e[1])
						}
					}
					w.ends(client, server)
				})
			}
		}
	}
}

// last reads the events of a program up to one that ends a connection, and returns its kind and
// status. A CONNECT_RESPONSE is confirmed.
func (w *world) last(f *file, uid uint64) []uint32 {
	w.Helper()
	for {
		w.await(func() bool { return len(f.ch.events) > 0 })
		b := f.event()
		require.Equal(w, uid, le.Uint64(b[abi.CMEventRespUID:]))
		switch kind := le.Uint32(b[abi.CMEventRespEvent:]); eventKind(kind) {
		case connectResponse:
			f.accept(idOf(b), 0, none)
		case established:
		default:
			return []uint32{kind, le.Uint32(b[abi.CMEventRespStatus:])}
		}
	}
}

// A server that dies while its answer is on its way ends the connection that the client believes in.
func TestDetachedWithoutRTU(t *testing.T) {
	w := newWorld(t, 2)
	client, server, _ := w.pair()
	active := client.resolved(abi.CMPSTCP, 1, inet("10.0.0.2", 7000))
	require.Zero(t, client.connect(active, ""))
	require.Zero(t, server.accept(idOf(w.next(server, connectRequest, 100, 0)), 2, params(1, "")))
	w.next(client, connectResponse, 1, 0)
	lose := true
	w.eat = func(msg Message) bool { return lose && (msg.kind() == kindREJ || msg.kind() == kindRTU) }
	require.Zero(t, client.accept(active, 0, none))
	server.close()
	require.Equal(t, 1, server.m.detachedLinks)
	w.run(3 * time.Second)
	client.quiet()
	lose = false
	w.next(client, disconnected, 1, 0)
	w.ends(client, server)
}

// There are at most maxDetached links without a program, because no user is charged for them.
func TestDetachedLinksAreBounded(t *testing.T) {
	w := newWorld(t, 2)
	client, server, active, _ := w.farPair()
	client.m.detachedLinks = maxDetached
	w.eat = func(Message) bool { return true }
	client.destroy(active)
	require.Empty(t, client.m.links)
	client.m.detachedLinks = 0
	w.run(time.Hour)
	require.Len(t, messages[*DREQ](w), 1, "it is sent once")
	w.ends(client, server)
}

// Over wires that lose, double and reorder messages, every connection is made and ended once.
func TestLossyWire(t *testing.T) {
	for seed := range uint64(60) {
		w := newWorld(t, 3)
		w.random = rand.New(rand.NewPCG(seed, 7))
		w.lost, w.doubled, w.delay = 0.3, 0.3, 3*time.Second
		if seed%3 == 0 {
			w.delay = 30 * time.Second // longer than the timers
		}
		server := w.rigs[0].host("10.0.0.2").open()
		server.listens("0.0.0.0", 7000)
		peers := []*peer{{file: server}}
		for k := range 4 {
			f := w.rigs[1+k%2].host(fmt.Sprint("10.0.1.", k)).open()
			peers = append(peers, &peer{file: f})
			h := f.resolved(abi.CMPSTCP, uint64(k+1), inet("10.0.0.2", 7000))
			require.Zero(t, f.connect(h, ""))
		}
		for _, p := range peers {
			p.uids = make(map[uint64]*fate)
		}
		for w.now < 20*time.Minute && w.step() {
			for _, p := range peers {
				p.react(w)
			}
		}
		for k, p := range peers[1:] {
			f := p.uids[uint64(k+1)]
			require.NotNil(t, f)
			require.Equal(t, fate{responses: 1, ends: 1}, *f, "seed %d client %d", seed, k)
		}
		made := 0
		for uid, f := range peers[0].uids {
			if f.established > 0 {
				made++
			}
			require.LessOrEqual(t, f.ends, 1, "seed %d uid %d", seed, uid)
			require.LessOrEqual(t, f.established, 1)
		}
		require.LessOrEqual(t, made, 4, "seed %d", seed)
		require.GreaterOrEqual(t, len(peers[0].uids), 4)
		if w.delay < repTime {
			require.Len(t, peers[0].uids, 4, "seed %d: no request was taken for a new one", seed)
		}
		for _, r := range w.rigs {
			require.Zero(t, r.m.WireStats().Malformed+r.m.WireStats().Unsent)
		}
		for _, p := range peers {
			p.close()
		}
		w.ends()
	}
}

// A peer is a program that accepts and confirms, and a client that then disconnects.
type peer struct {
	*file
	uids map[uint64]*fate
}

// A fate is what has happened to a connection.
type fate struct{ responses, established, ends int }

func (p *peer) react(w *world) {
	for len(p.ch.events) > 0 {
		b := p.event()
		uid := le.Uint64(b[abi.CMEventRespUID:])
		kind := eventKind(le.Uint32(b[abi.CMEventRespEvent:]))
		if kind == connectRequest {
			uid = uint64(1000 + len(p.uids))
			p.uids[uid] = new(fate)
			require.Zero(w, p.accept(idOf(b), uid, params(1, "")))
			continue
		}
		if p.uids[uid] == nil {
			p.uids[uid] = new(fate)
		}
		f := p.uids[uid]
		switch kind {
		case connectResponse:
			f.responses++
			h := idOf(b)
			require.Zero(w, p.accept(h, 0, none))
			w.after(time.Minute, func() { p.ok(abi.CMCmdDisconnect, 0, words(h)) })
		case established:
			f.established++
		case disconnected, rejected, unreachable:
			f.ends++
			p.destroy(idOf(b))
		case timewaitExit:
		default:
			w.Fatalf("%s", eventNames[kind])
		}
	}
}
