//go:build linux && (amd64 || arm64)

package linktorture

import (
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/packet"
)

// mostPackets is how many packets an attack sends in a second at most: enough to be a nuisance, and so
// few that correct processes on the same two cores have time left. The scanner sends fewer, see scan.
const mostPackets = 10_000

// A hostile is a hostile process.
type hostile struct {
	w       *wire
	s       spec
	r       *rand.Rand
	senders map[netip.Addr]int // UDP sockets by the address that they send from
	raw     int
	sniffer int
	copies  [][]byte
	pool    *scribbler
	psn     uint32
	count   Count
	counted time.Time
}

// runHostile repeats its attack until gone is closed. An attack that cannot be made, because a connection is
// refused, for instance, is none that fails.
func runHostile(w *wire, s spec, gone <-chan struct{}) error {
	h := &hostile{w: w, s: s, r: rand.New(rand.NewPCG(s.Seed, 0x686f7374)), senders: map[netip.Addr]int{},
		raw: -1, sniffer: -1}
	h.psn = h.r.Uint32() & 0xffffff
	attack := table()[s.Kind].attack
	for {
		select {
		case <-gone:
			h.reportCount(0)
			return nil
		default:
		}
		if err := attack(h); err != nil {
			return err
		}
		h.reportCount(countTime)
	}
}

func (h *hostile) reportCount(age time.Duration) {
	if now := time.Now(); now.Sub(h.counted) >= age {
		h.counted = now
		count := h.count
		h.w.send(report{Count: &count})
	}
}

// burst sends n packets, and then waits as long as they may take.
func (h *hostile) burst(n, perSecond int, send func() error) error {
	began := time.Now()
	for range n {
		if err := send(); err != nil {
			return err
		}
		h.count.Hostile++
	}
	time.Sleep(time.Until(began.Add(time.Duration(n) * time.Second / time.Duration(perSecond))))
	return nil
}

// victim returns one of the queue pairs that are attacked, and its peer.
func (h *hostile) victim() (to, peer *nicless.Descriptor) {
	i := h.r.IntN(2)
	return &h.s.Victims[i], &h.s.Victims[1-i]
}

func port(a netip.Addr) netip.AddrPort { return netip.AddrPortFrom(a, packet.Port) }
