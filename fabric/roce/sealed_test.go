//go:build linux && (amd64 || arm64)

package roce

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nicless/nicless/fabric/auth"
	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/freeport"
	"github.com/nicless/nicless/internal/packetring"
	"github.com/nicless/nicless/packet"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// keys returns what a host needs to authenticate others, and the file of the keys that it accepts.
func keys(t testing.TB, items ...string) (p *auth.Party, peers string) {
	t.Helper()
	o := auth.Options{Key: filepath.Join(t.TempDir(), "key")}
	for _, item := range items {
		_, err := o.Set(item)
		require.NoError(t, err)
	}
	_, err := auth.NewIdentity(o.Key)
	require.NoError(t, err)
	p, err = o.Open(nil)
	require.NoError(t, err)
	return p, o.Key + ".peers"
}

// accept writes lines into a file of peers.
func accept(t testing.TB, p *auth.Party, file string, lines ...any) {
	t.Helper()
	var text strings.Builder
	for i := 0; i < len(lines); i += 2 {
		text.WriteString(lines[i].(netip.Addr).String() + " " + lines[i+1].(*auth.Party).Identity.Public().String() + "\n")
	}
	require.NoError(t, os.WriteFile(file, []byte(text.String()), 0o600))
	p.Peers.Refresh()
}

// keyedHosts returns two hosts that accept each other's keys.
func keyedHosts(t testing.TB, cfg Config, items ...string) (a, b *host, at []netip.Addr) {
	t.Helper()
	at = freeport.Loopback(t, 3)
	x, xFile := keys(t, items...)
	y, yFile := keys(t, items...)
	accept(t, x, xFile, at[1], y)
	accept(t, y, yFile, at[0], x)
	cfg.Auth = x
	a = startHost(t, cfg, at[0])
	cfg.Auth = y
	b = startHost(t, cfg, at[1])
	return a, b, at
}

// session waits until a host has a session with an address.
func (h *host) session(to netip.Addr) *session {
	h.t.Helper()
	var s *session
	await.Until(h.t, "a session with "+to.String(), func() bool {
		h.guard.mu.Lock()
		defer h.guard.mu.Unlock()
		for _, r := range h.guard.remotes {
			if r.addr == to {
				s = r.send.Load()
			}
		}
		return s != nil
	})
	return s
}

// Packets of all opcodes and of many lengths cross a link with keys as they are, encrypted or not, alone or
// in bursts that the kernel cuts and joins.
func TestSealedPacketsCross(t *testing.T) {
	for _, items := range [][]string{nil, {"encrypt"}} {
		for _, threads := range []int{1, 2} {
			a, b, at := keyedHosts(t, Config{Threads: threads}, items...)
			path, back := a.to(at[0], at[1]), b.to(at[1], at[0])
			a.session(at[1])
			b.session(at[0])
			type sent struct{ head, payload []byte }
			var list []sent
			for _, o := range opcodes() {
				for _, n := range []int{0, 1, 3, 4, 255, 1024, 1024, 1024, 4093, 4096} {
					if n > 0 && !o.Info().Payload {
						continue
					}
					psn := uint32(len(list))
					list = append(list, sent{head(o, psn), content(n, psn)})
				}
			}
			for group := range slices.Chunk(list, 50) {
				a.together(path.Number, func() {
					for _, p := range group {
						require.True(t, a.put(path.Number, p.head, p.payload))
					}
				})
				for _, p := range group {
					got := b.next()
					require.Equal(t, back.Source, got.path)
					p.head[1] |= byte(-len(p.payload)&3) << 4
					require.Equal(t, p.head, got.head)
					if packet.Opcode(got.head[0]).Info().DETH {
						got.payload = got.payload[grhSize:]
					}
					require.Equal(t, p.payload, got.payload)
				}
			}
			b.counted(len(list))
			stats := b.Stats()
			assert.Zero(t, stats.Received.Dropped)
			assert.Greater(t, a.Stats().Sent.Segmented, uint64(len(list)/2))
			assert.Greater(t, stats.Received.Joined, uint64(len(list)/2))
			peer := b.Peers()[0]
			want := "authenticated"
			if items != nil {
				want = "encrypted"
			}
			assert.True(t, peer.Up)
			assert.Contains(t, peer.Keys, want+" with key "+a.guard.party.Identity.Public().Fingerprint())
		}
	}
}

// A stranger on the host of a peer: another program there sends from the peer's address and any port. It
// knows queue pair and PSN, and seals packets as RoCE does.
func strangerWrites(t *testing.T, victim *host, from, to netip.Addr) {
	t.Helper()
	s := newForeigner(t, from, to)
	for psn := range uint32(200) {
		s.send(s.seal(head(writeOnly, psn), content(64, psn)))
		s.send(s.seal(head(udSend, psn), content(64, psn)))
		management := head(udSend, psn)
		management[5], management[6], management[7] = 0, 0, 1 // queue pair 1
		s.send(s.seal(management, content(256, psn)))
	}
}

// Without keys, packets of a stranger on the peer's host reach the engine; with keys no packet does, also not
// those for queue pair 1, while the peer's own do.
func TestStrangerOnThePeersHost(t *testing.T) {
	at := freeport.Loopback(t, 2)
	plain := startHost(t, Config{}, at[1])
	plain.to(at[1], at[0])
	strangerWrites(t, plain, at[0], at[1])
	for range 600 {
		plain.next()
	}
	require.NoError(t, plain.Close())

	a, b, at := keyedHosts(t, Config{})
	path := a.to(at[0], at[1])
	a.session(at[1])
	for _, from := range []netip.Addr{at[0], at[2]} {
		dropped := func() uint64 { // the kernel drops WRITEs of an address without a path
			r := b.Stats().Received
			return r.Dropped[NotAuthenticated] + r.KernelUnfit
		}
		before := dropped()
		strangerWrites(t, b, from, at[1])
		await.Until(t, "all are dropped", func() bool { return dropped() == before+600 })
	}
	a.send(path.Number, head(writeOnly, 7), content(8, 7))
	require.Equal(t, content(8, 7), b.next().payload)
	_, more := b.took()
	require.False(t, more)
	b.counted(1)
}

// sealedBy returns a sealed datagram of a session.
func sealedBy(s *session, head, payload []byte) []byte {
	counter, _ := s.guardSealer.Next()
	b := make([]byte, authHead, 5000)
	putAuthHead(b, kindPacket, s.Number, counter)
	b = append(append(b, head...), payload...)
	b = append(b, make([]byte, auth.TagSize)...)
	s.guardSealer.Seal(b, authHead, counter)
	return b
}

// A sealed datagram counts once, from the address of its session, and as it was.
func TestSealedDatagramsOfOthers(t *testing.T) {
	for _, items := range [][]string{nil, {"encrypt"}} {
		a, b, at := keyedHosts(t, Config{}, items...)
		a.to(at[0], at[1])
		s := a.session(at[1])
		onHost, elsewhere := newForeigner(t, at[0], at[1]), newForeigner(t, at[2], at[1])
		datagram := sealedBy(s, head(writeOnly, 1), content(64, 1))
		drop := func(from *foreigner, b2 []byte, why Reason) {
			t.Helper()
			before := b.Stats().Received.Dropped
			from.send(b2)
			before[why]++
			await.Until(t, why.String(), func() bool { return b.Stats().Received.Dropped == before })
		}
		drop(elsewhere, datagram, WrongAddress)
		for _, i := range []int{8, 15, 16, 20, 30, len(datagram) - 1} {
			bad := append([]byte(nil), datagram...)
			bad[i] ^= 0x40
			drop(onHost, bad, Forged)
		}
		bad := append([]byte(nil), datagram...)
		bad[4] ^= 1
		drop(onHost, bad, NoSession)
		drop(onHost, datagram[:len(datagram)-4], Forged)
		drop(onHost, datagram[:40], Forged)
		drop(onHost, datagram[:verdictSize-1], BadLength)
		bad = append([]byte(nil), datagram...)
		bad[1] = kindVerdict
		drop(onHost, bad, Forged)
		bad[1] = 99
		drop(onHost, bad, UnknownOpcode)
		onHost.send(datagram)
		require.Equal(t, content(64, 1), b.next().payload)
		drop(onHost, datagram, Replayed)

		// Authenticated is not yet a packet.
		drop(onHost, sealedBy(s, head(writeOnly, 1)[:8], nil), BadLength)
		drop(onHost, sealedBy(s, head(0xff, 1), nil), UnknownOpcode)
		drop(onHost, sealedBy(s, head(writeOnly, 1), make([]byte, 4100)), BadLength)
	}
}

// The first short packets wait for the handshake, and arrive
// once; packets that are long or too many are dropped.
func TestPacketsWaitForASession(t *testing.T) {
	at := freeport.Loopback(t, 2)
	x, xFile := keys(t, "encrypt")
	y, yFile := keys(t, "encrypt")
	accept(t, x, xFile, at[1], y)
	accept(t, y, yFile, at[0], x)
	a := startHost(t, Config{Auth: x}, at[0])
	path := a.to(at[0], at[1])
	a.send(path.Number, head(writeOnly, 99), content(2000, 1))
	for i := range uint32(mostHeld + 2) {
		a.send(path.Number, head(writeOnly, i), content(254+int(i), i))
	}
	await.Until(t, "all were taken", func() bool { return a.Stats().Sent.NoSession == 3 })
	b := startHost(t, Config{Auth: y}, at[1])
	for i := range uint32(mostHeld) {
		got := b.next()
		want := head(writeOnly, i)
		want[1] |= byte(-(254+i)&3) << 4
		require.Equal(t, want, got.head)
		require.Equal(t, content(254+int(i), i), got.payload)
	}
	a.send(path.Number, head(writeOnly, 50), nil)
	require.Equal(t, head(writeOnly, 50), b.next().head)
	require.EqualValues(t, 3, a.Stats().Sent.NoSession)
}

// The ring is full: a packet that was opened waits, and is not taken for a replay.
func TestSealedFullRing(t *testing.T) {
	a, b, at := keyedHosts(t, Config{}, "encrypt")
	path := a.to(at[0], at[1])
	a.session(at[1])
	const packets = defaultSlots + 40
	for i := range uint32(packets) {
		a.send(path.Number, head(writeMiddle, i), content(64, i))
	}
	await.Until(t, "the ring is full", func() bool { return b.Stats().Received.Full > 0 })
	for i := range uint32(packets) {
		require.Equal(t, content(64, i), b.next().payload)
	}
	require.Zero(t, b.Stats().Received.Dropped)
}

// An engine that begins anew without its sessions is understood again, whichever end sends first.
func TestSealedAfterRestart(t *testing.T) {
	for _, restarted := range []bool{true, false} {
		a, b, at := keyedHosts(t, Config{})
		path := a.to(at[0], at[1])
		old := a.session(at[1])
		a.send(path.Number, head(writeOnly, 1), nil)
		b.next()
		party := b.guard.party
		require.NoError(t, b.Close())
		b = startHost(t, Config{Auth: party}, at[1])
		from, to, number := a, b, path.Number
		if restarted {
			from, to, number = b, a, b.to(at[1], at[0]).Number
		}
		psn := uint32(2)
		to.comes(func() { from.send(number, head(writeOnly, psn), nil); psn++ }) // as a requester does
		require.NotEqual(t, old, a.session(at[1]))
	}
}

// An address that is closed and opened again gets a new session.
func TestSealedAfterReopening(t *testing.T) {
	a, b, at := keyedHosts(t, Config{})
	a.to(at[0], at[1])
	a.session(at[1])
	require.NoError(t, a.RemoveAddress(at[0]))
	require.NoError(t, a.AddAddress(at[0]))
	path := a.to(at[0], at[1])
	psn := uint32(2)
	b.comes(func() { a.send(path.Number, head(writeOnly, psn), nil); psn++ })
}

// auth=offered: a peer that no line covers is reached without keys; one with a line never.
func TestOffered(t *testing.T) {
	at := freeport.Loopback(t, 4)
	x, file := keys(t, "auth=offered")
	other, _ := keys(t)
	accept(t, x, file, at[2], other)
	a := startHost(t, Config{Auth: x}, at[0])
	plain, covered := startHost(t, Config{}, at[1]), startHost(t, Config{}, at[2])
	back := plain.to(at[1], at[0])
	plain.send(back.Number, head(udSend, 1), nil)
	a.next()
	require.Empty(t, a.Peers(), "a stranger without a key")
	a.send(a.to(at[0], at[1]).Number, head(writeOnly, 1), nil)
	plain.next()
	plain.send(back.Number, head(writeOnly, 2), nil)
	require.Equal(t, head(writeOnly, 2), a.next().head)

	covered.send(covered.to(at[2], at[0]).Number, head(udSend, 3), nil)
	await.Until(t, "dropped", func() bool { return a.Stats().Received.Dropped[NotAuthenticated] == 1 })
	a.send(a.to(at[0], at[2]).Number, head(writeOnly, 4), content(4000, 4))
	await.Until(t, "dropped", func() bool { return a.Stats().Sent.NoSession > 0 })
	await.Until(t, "reported", func() bool {
		for _, p := range a.Peers() {
			if p.Name == at[2].String() {
				return !p.Up && strings.Contains(p.Why, "does not answer")
			}
		}
		return false
	})
	require.Zero(t, covered.Stats().Received.Packets)
	require.Equal(t, "not authenticated (auth=offered)", a.Peers()[0].Keys)

	// Later a line covers it: then no more without keys.
	accept(t, x, file, at[2], other, at[1], other)
	await.Until(t, "no more plain packets", func() bool {
		plain.send(plain.to(at[1], at[0]).Number, head(writeOnly, 5), nil)
		a.took()
		return a.Stats().Received.Dropped[NotAuthenticated] > 1
	})
}

// trust=first with auth=offered: two such engines pin each other's keys and use them; one without keys is
// reached after the handshake was tried.
func TestOfferedTrust(t *testing.T) {
	at := freeport.Loopback(t, 3)
	x, _ := keys(t, "auth=offered", "trust=first")
	y, _ := keys(t, "auth=offered", "trust=first")
	a, b, plain := startHost(t, Config{Auth: x}, at[0]), startHost(t, Config{Auth: y}, at[1]), startHost(t, Config{}, at[2])
	a.to(at[0], at[1])
	require.Equal(t, y.Identity.Public(), a.session(at[1]).Remote)
	require.Equal(t, x.Identity.Public(), b.session(at[0]).Remote)
	require.NoError(t, x.Peers.Known(at[1], y.Identity.Public()))
	plain.to(at[2], at[0])
	path := a.to(at[0], at[2])
	psn := uint32(1)
	plain.comes(func() { a.send(path.Number, head(writeOnly, psn), nil); psn++ })
}

// A key that is taken out of the file of peers ends its session.
func TestKeyIsTakenBack(t *testing.T) {
	at := freeport.Loopback(t, 2)
	x, xFile := keys(t)
	y, file := keys(t)
	accept(t, x, xFile, at[1], y)
	accept(t, y, file, at[0], x)
	a, b := startHost(t, Config{Auth: x}, at[0]), startHost(t, Config{Auth: y}, at[1])
	path := a.to(at[0], at[1])
	a.session(at[1])
	b.session(at[0])
	a.send(path.Number, head(writeOnly, 1), nil)
	b.next()
	b.counted(1)
	other, _ := keys(t)
	accept(t, b.guard.party, file, at[0], other)
	await.Until(t, "it has ended", func() bool { return b.Peers()[0].Keys == "none yet" })
	require.Contains(t, b.Peers()[0].Why, "has another key")
	a.send(path.Number, head(writeOnly, 2), nil)
	await.Until(t, "dropped", func() bool { return b.Stats().Received.Dropped[NoSession] > 0 })
	b.counted(1)
}

// The MTU of a link with keys leaves room for the tag.
func TestSealedMTU(t *testing.T) {
	for device, want := range map[int][2]int{1500: {1024, 1024}, 4200: {4096, 2048}, 4204: {4096, 4096}, 1104: {1024, 512}, 65536: {4096, 4096}, 9000: {4096, 4096}} {
		require.Equal(t, want[0], pathMTU(device))
		require.Equal(t, want[1], pathMTU(device-sealedMore), "%d", device)
	}
	a, _, at := keyedHosts(t, Config{})
	require.Equal(t, sealedMore, (*a.locals.Load())[0].more)
	n, err := MTU(at[0], true)
	require.NoError(t, err)
	require.Equal(t, maxMTU, n)
}

// byHand makes the guards of two hosts that are not started do a handshake.
func byHand(t testing.TB, a, b *host) {
	t.Helper()
	await.Until(t, "the handshake is done", func() bool {
		for _, h := range []*host{a, b} {
			h.guard.h.look(time.Now())
			h.receiver.step()
			for _, queue := range []chan letter{h.guard.answers, h.guard.known, h.guard.strangers} {
				for len(queue) > 0 {
					l := <-queue
					h.guard.h.take(&l, time.Now())
				}
			}
		}
		return a.guard.first().send.Load() != nil && b.guard.first() != nil
	})
}

// first returns a remote; nil if there is none.
func (g *guard) first() *remote {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range g.remotes {
		return r
	}
	return nil
}

// Sender and receiver allocate no memory for packets on links with keys.
func TestSealedDoesNotAllocate(t *testing.T) {
	for _, items := range [][]string{nil, {"encrypt"}} {
		at := freeport.Loopback(t, 2)
		x, xFile := keys(t, items...)
		y, yFile := keys(t, items...)
		accept(t, x, xFile, at[1], y)
		accept(t, y, yFile, at[0], x)
		a, b := newHost(t, Config{Auth: x}), newHost(t, Config{Auth: y})
		stopped(t, a)
		stopped(t, b)
		require.NoError(t, a.AddAddress(at[0]))
		require.NoError(t, b.AddAddress(at[1]))
		b.to(at[1], at[0])
		path := a.to(at[0], at[1])
		byHand(t, a, b)
		h, payload := head(writeOnly, 1), content(3000, 1)
		var p packetring.Packet
		junk := newForeigner(t, at[0], at[1])
		sealed, plain := sealedBy(a.guard.first().send.Load(), h, payload), junk.seal(h, payload)
		to, err := sockaddr(at[1], packet.Port)
		require.NoError(t, err)
		fd := (*a.locals.Load())[0].senders[0].fd
		taken := 0
		require.Zero(t, testing.AllocsPerRun(100, func() {
			for i := range 10 {
				head, place, _ := a.port.Send.Reserve(len(h), 300*i)
				copy(head, h)
				copy(place, payload)
				a.port.Send.Publish(path.Number)
			}
			for a.sender.ready() {
				a.sender.step()
			}
			_ = unix.Sendto(fd, sealed, 0, to) // once good, then replayed
			_ = unix.Sendto(fd, plain, 0, to)
			for n := taken + 10; taken < n; {
				b.receiver.step()
				for {
					if ok, _ := b.port.Receive.Next(&p); !ok {
						break
					}
					taken++
				}
				b.port.Receive.Free()
			}
		}))
		require.NotZero(t, b.Stats().Received.Dropped[Replayed])
		require.NotZero(t, b.Stats().Received.Dropped[NotAuthenticated])
	}
}

// Plain packets from very many forged addresses do not make the guard remember them all.
func TestStrangersAreForgotten(t *testing.T) {
	at := freeport.Loopback(t, 2)
	x, _ := keys(t, "auth=offered")
	a := startHost(t, Config{Auth: x}, at[0])
	from := (*a.locals.Load())[0]
	remotes := func() int {
		a.guard.mu.Lock()
		defer a.guard.mu.Unlock()
		return len(a.guard.remotes)
	}
	for i := range uint32(100_000) {
		forged := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		_, err := a.paths.use(key{local: from.number, remote: forged.As16(), hops: defaultHops}, from, stranger)
		require.NoError(t, err)
	}
	t.Logf("%d remotes", remotes())
	await.Until(t, "they are forgotten", func() bool { return remotes() <= mostRemotes })
}

// An engine without keys says that a peer has keys, and not that its packets are unknown.
func TestPeerWithKeysOfOneWithout(t *testing.T) {
	at := freeport.Loopback(t, 2)
	b := startHost(t, Config{}, at[1])
	from := newForeigner(t, at[0], at[1])
	first := make([]byte, firstSize)
	putAuthHead(first, kindFirst, 0, 1<<32)
	from.send(first)
	await.Until(t, "counted", func() bool { return b.Stats().Received.Dropped[OnlyKeys] > 0 })
	require.Zero(t, b.Stats().Received.Dropped[UnknownOpcode])
	require.Contains(t, OnlyKeys.String(), "a handshake of a peer with keys; this engine has none")
}
