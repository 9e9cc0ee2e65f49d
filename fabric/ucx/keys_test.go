//go:build linux && (amd64 || arm64)

package ucx

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nicless/nicless/fabric/auth"
	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/require"
)

// newKey makes a key of an engine, and returns options that name it, and its public key.
func newKey(t testing.TB) (auth.Options, auth.PublicKey) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	id, err := auth.NewIdentity(file)
	require.NoError(t, err)
	return auth.Options{Key: file}, id.Public()
}

// accept lets a key be used from this host.
func accept(t testing.TB, by auth.Options, keys ...auth.PublicKey) {
	t.Helper()
	var lines strings.Builder
	for _, k := range keys {
		lines.WriteString("127.0.0.0/8 " + k.String() + "\n")
	}
	require.NoError(t, os.WriteFile(by.Key+".peers", []byte(lines.String()), 0o600))
}

// keyedPair returns options for two engines that accept each other.
func keyedPair(t testing.TB) (one, two auth.Options) {
	t.Helper()
	one, keyOne := newKey(t)
	two, keyTwo := newKey(t)
	accept(t, one, keyTwo)
	accept(t, two, keyOne)
	return one, two
}

// Packets over a link with keys, also encrypted: of all sizes, both ways at once.
func TestPacketsWithKeys(t *testing.T) {
	for name, env := range transports {
		for _, encrypt := range []bool{false, true} {
			t.Run(name+map[bool]string{true: " encrypted"}[encrypt], func(t *testing.T) {
				one, two := keyedPair(t)
				one.Encrypt, two.Encrypt = encrypt, encrypt
				testPackets(t, Config{Env: env, Auth: one}, Config{Env: env, Auth: two})
			})
		}
	}
}

// An engine that has no key, another one, or other options, is no peer; both ends report why.
func TestKeysRefused(t *testing.T) {
	one, keyOne := newKey(t)
	two, keyTwo := newKey(t)
	three, _ := newKey(t)
	accept(t, one, keyTwo)
	accept(t, two, keyOne)
	accept(t, three, keyOne)
	wrong := one // the same key, but it accepts no peer
	wrong.Peers = filepath.Join(t.TempDir(), "nobody")
	require.NoError(t, os.WriteFile(wrong.Peers, nil, 0o600))
	encrypted := two
	encrypted.Encrypt = true
	for name, row := range map[string]struct {
		listens, connects auth.Options
		why               string
	}{
		"no key":                 {one, auth.Options{}, "the other engine requires keys, and this link has none (key=FILE)"},
		"a key where none is":    {auth.Options{}, two, "the other engine has none, and this link requires them"},
		"another key":            {one, three, "the key is not accepted from this address"},
		"not accepted here":      {two, wrong, "this engine refuses the peer's key"},
		"only one encrypts":      {one, encrypted, "one end has the option encrypt and the other has not"},
		"required where covered": {auth.Options{}, func() auth.Options { o := two; o.Offered = true; return o }(), "the other engine has none, and this link requires them"},
	} {
		t.Run(name, func(t *testing.T) {
			address := freePort(t)
			a, _ := open(t, 1, Config{Listen: address, Auth: row.listens})
			b, _ := open(t, 2, Config{Connect: []string{address}, Auth: row.connects})
			await.Until(t, "it is said why", func() bool { return strings.Contains(b.Peers()[0].Why, row.why) }, func() any { return b.Peers() })
			await.Until(t, "it is counted", func() bool {
				return a.dropsOf(causeKeys) > 0 || a.dropsOf(causeJunk) > 0 || a.dropsOf(causeRefused) > 0
			}, func() any { return a.About() })
			require.Empty(t, a.Peers())
			if row.connects.Key != "" {
				require.Equal(t, auth.ReportNone, b.Peers()[0].Keys)
			}
			require.False(t, b.d().up.Load())
		})
	}
}

// d returns the device of a carrier.
func (c *Carrier) d() *testDevice { return c.dev.(*testDevice) }

// auth=offered: engines without keys are peers, too, from addresses that no line covers.
func TestOfferedKeys(t *testing.T) {
	one, _ := newKey(t)
	one.Offered = true
	a, plain, _ := pair(t, Config{Auth: one}, Config{})
	require.Equal(t, auth.ReportPlain, a.Peers()[0].Keys)
	require.Empty(t, plain.Peers()[0].Keys, "it has no keys")
	two, _ := newKey(t)
	two.Trust, one.Trust = true, true
	a, b, _ := pair(t, Config{Auth: one}, Config{Auth: two})
	key, err := auth.LoadIdentity(two.Key)
	require.NoError(t, err)
	require.Regexp(t, `^authenticated with key `+key.Public().Fingerprint()+` \(\S+\) since 20\S+Z$`, a.Peers()[0].Keys)
	b.mu.Lock()
	defer b.mu.Unlock()
	require.NotEmpty(t, b.peers[1].key, "where both have keys, keys are used")
}

// trust=first pins the first key. Another engine at that address is refused.
func TestTrustFirst(t *testing.T) {
	one, _ := newKey(t)
	two, _ := newKey(t)
	three, _ := newKey(t)
	one.Trust, two.Trust, three.Trust = true, true, true
	a, b, address := pair(t, Config{Auth: one}, Config{Auth: two})
	exchange(t, a, b, 1)
	c, _ := open(t, 3, Config{Connect: []string{address}, Auth: three})
	await.Until(t, "another key is refused", func() bool { return a.dropsOf(causeKeys) > 0 }, func() any { return a.About() })
	require.False(t, peerUp(c, 1))
	exchange(t, a, b, 2)
}

// A GUID belongs to the key with which it came first, also when that engine is down.
func TestGUIDBelongsToAKey(t *testing.T) {
	one, keyOne := newKey(t)
	two, keyTwo := newKey(t)
	three, keyThree := newKey(t)
	accept(t, one, keyTwo, keyThree)
	accept(t, two, keyOne)
	accept(t, three, keyOne)
	a, b, address := pair(t, Config{Auth: one}, Config{Auth: two})
	require.NoError(t, b.Close())
	await.Until(t, "the peer is down", func() bool { return !peerUp(a.Carrier, 2) })
	c, _ := open(t, 2, Config{Connect: []string{address}, Auth: three})
	await.Until(t, "it is refused", func() bool { return strings.Contains(c.Peers()[0].Why, "belongs to an engine with another key") }, func() any { return c.Peers() })
}

// Keys are renewed while packets travel: no packet is lost. The old connection stays until no packet is on
// its way there.
func TestKeysAreRenewed(t *testing.T) {
	one, two := keyedPair(t)
	a, b, _ := pair(t, Config{Auth: one}, Config{Auth: two})
	connection := func() uint32 {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.targets[0].conn
	}
	for n := range 3 {
		before := connection()
		b.mu.Lock()
		old := b.conns[before]
		b.overlap = time.Hour
		if n == 2 {
			b.overlap = time.Millisecond
		}
		b.renew(old)
		b.mu.Unlock()
		if n == 2 { // no packet travels meanwhile: the end of the overlap would cut it off on a busy machine
			await.Until(t, "keys are renewed", func() bool { return connection() != before })
			<-old.gone
		}
		seen := 0
		for ctx := await.Context(t); connection() == before || seen < 50; seen++ {
			require.NoError(t, ctx.Err(), "keys are not renewed")
			for _, s := range [][2]side{{a, b}, {b, a}} {
				s[0].d.send(t, s[0].path, make([]byte, 12), []byte{byte(n), byte(seen)})
				receiveOne(t, s[1], []byte{byte(n), byte(seen)})
			}
		}
		// The engine itself ends the old connection when the
		// new one is up, which may be later than these packets.
		await.Until(t, "the new connection is up", func() bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			k := b.conns[b.targets[0].conn]
			return k != nil && k.up
		})
		_ = b.hangUp(old, "the test ends it")
		await.Until(t, "the old connection ends", func() bool {
			a.mu.Lock()
			defer a.mu.Unlock()
			return len(a.conns) == 1
		})
		require.True(t, peerUp(a.Carrier, 2) && peerUp(b.Carrier, 1))
	}
	require.Zero(t, a.Restarts()+b.Restarts())
}

// The process takes no message whose tag is wrong, even from a sender that knows its token; and
// ends no connection because of it.
func TestForgedMessages(t *testing.T) {
	one, two := keyedPair(t)
	a, b, address := pair(t, Config{Auth: one}, Config{Auth: two})
	// A stranger takes part in the connection: it has one of its tickets, and the token.
	s := newStranger(t)
	a.mu.Lock()
	for _, k := range a.conns {
		s.theirs = offer{token: k.token, doors: a.process.doors, tickets: k.tickets, worker: a.process.worker}
	}
	a.mu.Unlock()
	s.reach(address)
	count := func(n int) []byte { return append(s.prefix(uint64(n)), make([]byte, 16)...) }
	s.send(amSay, 0, s.prefix(1<<32), nil)
	s.send(amPacket, 0, append(s.prefix(), make([]byte, 12)...), []byte("forged"))
	s.send(amPacket, 0, append(s.prefix(), make([]byte, 48)...), make([]byte, 65536))
	for n := range 10 {
		s.send(amPacket, 0, append(count(n+1), make([]byte, 12)...), []byte("forged"))
		s.send(amSay, 0, append(count(1<<31+n), make([]byte, 8)...), nil)
	}
	await.Until(t, "they are counted", func() bool { return strings.Contains(a.About(), "23 messages without a valid tag dropped") }, func() any { return a.About() })
	exchange(t, a, b, 1)
	require.True(t, peerUp(a.Carrier, 2) && peerUp(b.Carrier, 1))
}

// A meeting that was recorded is no meeting again.
func TestReplayedMeeting(t *testing.T) {
	one, two := keyedPair(t)
	address := freePort(t)
	a, _ := open(t, 1, Config{Listen: address, Auth: one})
	p, err := two.Open(nil)
	require.NoError(t, err)
	hello := preamble{protocol, kindMeeting, flagKeys | flagRequired}.append(nil)
	sent := &record{}
	c := &recorded{Conn: dial(t, address, hello), sent: sent}
	_, err = io.ReadFull(c, make([]byte, preambleSize))
	require.NoError(t, err)
	_, _, err = p.Meet(c, carrierName, true, nil, 5*time.Second)
	require.NoError(t, err)
	replay := dial(t, address, append(hello, sent.String()...))
	closed(t, replay)
	await.Until(t, "it is counted", func() bool { return a.dropsOf(causeRefused)+a.dropsOf(causeKeys) > 0 }, func() any { return a.About() })
	require.Empty(t, a.Peers())
}

type recorded struct {
	net.Conn
	sent *record
}

func (r *recorded) Write(b []byte) (int, error) {
	_, _ = r.sent.Write(b)
	return r.Conn.Write(b)
}
