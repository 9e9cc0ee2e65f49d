//go:build linux && (amd64 || arm64)

package roce

import (
	"sync"
	"time"

	"github.com/nicless/nicless/fabric/auth"
)

const (
	mostHeld  = 4               // packets that wait for a session with a remote address
	heldSize  = shortPacket     // bytes of such a packet, from the BTH to the pad bytes
	heldFor   = 2 * time.Second // how long a packet is held; later, its queue pair has sent it again
	heldBytes = authHead + heldSize + auth.TagSize
)

// held has the first short packets for a remote address with which there is no session yet. Without them, a
// connection of rdma_cm would begin with its second request, which comes after 4 s. The sender adds, and
// the guard's goroutine takes; neither has the lock during a system call.
type held struct {
	mu   sync.Mutex
	n    int
	list [mostHeld]struct {
		since time.Time
		size  int
		b     [heldBytes]byte // with room for the head and the tag
	}
}

// add keeps a packet if there is room. It reports whether it did.
func (h *held) add(o *outgoing, now time.Time) bool {
	size := o.N + (len(o.Payload)+3)&^3
	if size > heldSize {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.n > 0 && now.Sub(h.list[0].since) > heldFor {
		h.n = 0
	}
	if h.n == mostHeld {
		return false
	}
	p := &h.list[h.n]
	h.n++
	p.since, p.size = now, authHead+size+auth.TagSize
	clear(p.b[:])
	n := copy(p.b[authHead:], o.Head[:o.N])
	copy(p.b[authHead+n:], o.Payload)
	setPad(p.b[authHead:], padOf(len(o.Payload)))
	return true
}

// sendHeld seals the packets that wait, and sends them.
func (h *handshakes) sendHeld(r *remote, s *session, now time.Time) {
	r.held.mu.Lock()
	var list [][]byte
	for i := range r.held.n {
		if p := &r.held.list[i]; now.Sub(p.since) <= heldFor {
			list = append(list, append([]byte(nil), p.b[:p.size]...))
		}
	}
	r.held.n = 0
	r.held.mu.Unlock()
	for _, b := range list {
		counter, _ := s.guardSealer.Next() // a session begins with all its counters
		putAuthHead(b, kindPacket, s.Number, counter)
		s.guardSealer.Seal(b, authHead, counter)
		h.send(r.from, r.addr, b)
	}
}
