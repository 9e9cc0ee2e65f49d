//go:build linux && (amd64 || arm64)

package cm

import (
	"fmt"
	"testing"
	"time"

	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/stretchr/testify/require"
)

// stormSize is how many connections begin at once.
const stormSize = 1000

// A thousand programs connect at once to one listener, over a network that delays datagrams by up to 200 ms
// and loses some: from one host, from four, and from a thousand. All connections are made, none is refused.
// Requests over the limits of one address (request_limits.go) are dropped, and come again 4.6 s later: a
// storm from one host is paced by that.
func TestConnectionStorm(t *testing.T) {
	for _, c := range []struct {
		hosts int
		lost  float64
		most  time.Duration
	}{{1, 0, 20 * time.Second}, {1, 0.03, time.Minute}, {4, 0.03, time.Minute}, {1000, 0, 10 * time.Second}} {
		t.Run(fmt.Sprintf("%d hosts, %v lost", c.hosts, c.lost), func(t *testing.T) {
			w := newWorld(t, 1+c.hosts)
			w.delay, w.lost = 200*time.Millisecond, c.lost
			began := time.Unix(0, 0)
			for _, r := range w.rigs {
				r.m.Now = func() time.Time { return began.Add(w.now) }
			}
			server := w.rigs[0].host("10.0.0.1").open()
			server.listens("0.0.0.0", 7000)
			var clients []*file
			for k := range c.hosts {
				clients = append(clients, w.rigs[1+k].host(fmt.Sprintf("10.1.%d.%d", k/250, 1+k%250)).open())
			}
			uid := uint64(1000)
			for k := range stormSize {
				uid++
				f := clients[k%c.hosts]
				require.Zero(t, f.connect(f.resolved(abi.CMPSTCP, uid, inet("10.0.0.1", 7000)), ""))
			}
			made, uids := 0, map[uint64]bool{}
			for made < stormSize {
				w.await(func() bool { return len(server.ch.events) > 0 || anyEvent(clients) != nil })
				if len(server.ch.events) > 0 {
					switch e := server.event(); eventKind(le.Uint32(e[abi.CMEventRespEvent:])) {
					case connectRequest:
						uid++
						require.Zero(t, server.accept(idOf(e), uid, params(0x222, "")))
					case established:
						made++
					default:
						require.Fail(t, "the server is told", "%v", eventKind(le.Uint32(e[abi.CMEventRespEvent:])))
					}
					continue
				}
				f := anyEvent(clients)
				e := f.event()
				require.Equal(t, connectResponse, eventKind(le.Uint32(e[abi.CMEventRespEvent:])), "%v; server %+v; client %+v", w.now, server.m.WireStats(), f.m.WireStats())
				at := le.Uint64(e[abi.CMEventRespUID:])
				require.False(t, uids[at])
				uids[at] = true
				require.Zero(t, f.accept(le.Uint32(e[abi.CMEventRespID:]), 0, none))
			}
			t.Logf("%v; server %+v; a client %+v", w.now, server.m.WireStats(), clients[0].m.WireStats())
			require.Less(t, w.now, c.most)
		})
	}
}

// anyEvent returns a program that has an event to read; nil: none has.
func anyEvent(all []*file) *file {
	for _, f := range all {
		if len(f.ch.events) > 0 {
			return f
		}
	}
	return nil
}
