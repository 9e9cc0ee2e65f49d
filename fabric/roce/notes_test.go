//go:build linux && (amd64 || arm64)

package roce

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/freeport"
	"github.com/stretchr/testify/require"
)

// The notes have dropped packets in words, those of peers apart from those of strangers.
func TestNotes(t *testing.T) {
	addr := freeport.Loopback(t, 3)
	h := startHost(t, Config{}, addr[0])
	require.Empty(t, h.Notes())
	h.to(addr[0], addr[1])
	peer, stranger := newForeigner(t, addr[1], addr[0]), newForeigner(t, addr[2], addr[0])
	spoil := func(s *foreigner) []byte {
		b := s.seal(head(udSend, 1), nil)
		b[len(b)-1] ^= 1
		return b
	}
	peer.send(spoil(peer))
	for range 2 {
		stranger.send(spoil(stranger))
		stranger.send(make([]byte, 5))
	}
	want := []string{
		"dropped datagrams of peers: 1 (wrong ICRC)", "dropped datagrams of strangers: 2 (wrong ICRC)",
		"dropped by the kernel's filter: 2 datagrams that are no packets, are of connections that nothing here has, or come from addresses that are not allowed",
	}
	if (*h.locals.Load())[0].group.strangers < 0 {
		t.Skip("the kernel does not choose among sockets")
	}
	await.Until(t, "the notes have all", func() bool { return slices.Equal(h.Notes(), want) }, func() any { return h.Notes() })
}

// A flood takes a line when it begins, one each minute, and one when it has ended.
func TestFloodsInTheLog(t *testing.T) {
	var b bytes.Buffer
	h := newHost(t, Config{Log: slog.New(slog.NewTextHandler(&b, nil))})
	b.Reset()
	var w floodWatch
	now, dropped := time.Now(), uint64(5)
	second := func(n uint64) {
		now, dropped = now.Add(time.Second), dropped+n
		w.look(h.Carrier, now, dropped, func() int { return 17 })
	}
	second(1e6) // what was before the first look is no rate
	for range 60 {
		second(floodRate - 1)
	}
	require.Empty(t, b.String())
	for range 150 {
		second(50_000)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	require.Len(t, lines, 3, b.String())
	require.Contains(t, lines[0], `"dropped a second"=50000 "addresses of strangers, about"=17 "goes on"=false`)
	require.Contains(t, lines[1], `"goes on"=true`)
	b.Reset()
	second(0)
	require.Contains(t, b.String(), "the flood at the RoCE port has ended")
	b.Reset()
	second(0)
	require.Empty(t, b.String())
}
