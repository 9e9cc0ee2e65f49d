//go:build linux && (amd64 || arm64)

package ucx

import (
	"fmt"
	"strings"
	"time"
)

// An ending is why a process has ended.
type ending int

const (
	endedByAssertion  ending = iota // libucx has called abort
	endedBySignal                   // another signal, such as a segmentation fault
	endedByKill                     // SIGKILL, by another process
	endedByExit                     // it has reported why, or has exited
	endedBySilence                  // it was killed because it sent nothing
	endedForInterface               // it was killed because UCX would not use a new network interface
	endedBeforeStart                // it could not be started
	endings
)

var endingNames = [endings]string{
	"assertion", "signal", "killed", "exit", "silent", "interface", "not started",
}

// About returns what "nicless links" says of the link besides its peers: the process, its restarts by cause,
// and connections and messages of strangers that were dropped.
func (c *Carrier) About() string {
	var parts []string
	c.mu.Lock()
	if p := c.process; p != nil {
		parts = append(parts, fmt.Sprintf("process %d, UCX %s", p.pid, p.version))
		if n := p.unknown[0] + p.unknown[1]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d messages of no connection dropped", n))
		}
		if n := p.unknown[2]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d messages without a valid tag dropped", n))
		}
	} else {
		parts = append(parts, "no process: "+c.down)
	}
	c.mu.Unlock()
	var causes []string
	total := uint64(0)
	for i := range c.restarts {
		if n := c.restarts[i].Load(); n > 0 {
			causes = append(causes, fmt.Sprintf("%d %s", n, endingNames[i]))
			total += n
		}
	}
	if total > 0 {
		parts = append(parts, fmt.Sprintf("restarts: %d (%s)", total, strings.Join(causes, ", ")))
	}
	if s := c.strangers.String(); s != "" {
		parts = append(parts, s)
	}
	return strings.Join(parts, "; ")
}

// Restarts returns how often the process has ended and was started again.
func (c *Carrier) Restarts() (total uint64) {
	for i := range c.restarts {
		total += c.restarts[i].Load()
	}
	return total
}

const (
	firstBan = 10 * time.Second
	mostBan  = 10 * time.Minute
	mostBans = 1024
)

// bans are the peers whose worker addresses have ended the process, by key or by address. Carrier.mu.
type bans map[string]*ban

type ban struct {
	until time.Time
	last  time.Duration
}

func (b bans) has(who string, now time.Time) bool {
	n := b[who]
	return n != nil && now.Before(n.until)
}

// add bans a peer: each time for twice as long.
func (b bans) add(who string, now time.Time) time.Duration {
	n := b[who]
	if n == nil {
		if len(b) >= mostBans {
			for o, n := range b {
				if now.After(n.until) {
					delete(b, o)
				}
			}
		}
		if len(b) >= mostBans {
			return 0
		}
		n = &ban{last: firstBan / 2}
		b[who] = n
	}
	n.last = min(2*n.last, mostBan)
	n.until = now.Add(n.last)
	return n.last
}

// banned reports whether an engine is refused: its address or key, or this life of it. Without keys,
// all engines behind an address would be refused for what one of them has done; so engines that were up
// before are not: others do not know the number of their life.
func (c *Carrier) banned(w *wire, h *hello) bool {
	now := time.Now()
	q := c.peers[h.guid]
	proven := w.key == "" && q != nil && q.proven && q.hello.life == h.life
	return c.bans.has(h.lifeName(), now) || c.bans.has(w.who, now) && !proven
}

// blame bans the engine whose worker address libucp was reading when the process crashed.
func (c *Carrier) blame(p *process, crashed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.conns[p.trying]; crashed && k != nil {
		now := time.Now()
		c.bans.add(k.peer.hello.lifeName(), now)
		c.log.Warn("a peer's worker address has ended the process; the peer is refused for a while", "peer", k.peer.remote, "for", c.bans.add(k.wire.who, now))
	}
}

// lifeName names a life of an engine.
func (h *hello) lifeName() string { return fmt.Sprintf("%016x %016x", h.guid, h.life) }
