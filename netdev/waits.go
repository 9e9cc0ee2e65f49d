//go:build linux && (amd64 || arm64)

package netdev

import (
	"bytes"
	"errors"
)

// Packets that come while there is no session wait for it: mostWaiting of a peer, and waitingBytes of all
// peers together. That is what programs send before they wait for an answer. A peer may have half of what the
// others leave free of that: so one that answers no dial leaves room for others.
const (
	mostWaiting  = 16
	waitingBytes = 1 << 20
)

// errWaits says that a packet waits for a session. Its buffer or slot is still the caller's.
var errWaits = errors.New("waits")

// putAside puts a copy of a packet, with its virtio header, aside until there is a session, and asks for one.
// It returns errWaits, or errDropped if there is no room. mu is held.
func (p *peer) putAside(b []byte) error {
	in := p.in
	if p.gone {
		return errDropped
	}
	size := int64(len(b))
	all := in.waiting.bytes.Add(size)
	if len(p.waits) >= mostWaiting || p.waitBytes+size > (waitingBytes-(all-size-p.waitBytes))/2 {
		in.waiting.bytes.Add(-size)
		if !p.up && !p.wants { // the next packets shall find a session
			p.wants = true
			p.request()
		}
		return errDropped
	}
	p.waitBytes += size
	in.stats.waited.Add(1)
	p.waits = append(p.waits, bytes.Clone(b))
	p.request()
	return errWaits
}

// want asks for a session, if there is none.
func (p *peer) want() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.up {
		p.wants = true
		p.request()
	}
}

// request makes the goroutine that receives look at the peer. mu is held.
func (p *peer) request() {
	if p.gone {
		return
	}
	p.in.mu.Lock()
	p.in.requests = append(p.in.requests, p)
	p.in.mu.Unlock()
	p.in.again()
}

// wanted reports whether a session is to be opened.
func (p *peer) wanted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.wants || len(p.waits) > 0
}

// sendWaiting sends the packets that wait, as many as there are buffers.
func (p *peer) sendWaiting() {
	p.in.collect()
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.waits) > 0 && p.up {
		b := p.waits[0]
		if p.full(p.in.free) || !p.sendCopy(b) {
			p.in.later(lookAgain)
			return
		}
		p.waits = p.waits[1:]
		p.waitBytes -= int64(len(b))
		p.in.waiting.bytes.Add(int64(-len(b)))
	}
	if len(p.waits) == 0 {
		p.waits = nil
	}
}

// sendCopy sends a copy of a packet, if there is a buffer. mu is held.
func (p *peer) sendCopy(b []byte) bool {
	select {
	case n := <-p.in.free:
		copy(p.in.send.at(int(n))[messageSize:], b)
		if p.postBuffer(n, len(b)) != nil {
			p.in.free <- n
			return false
		}
		return true
	default:
		return false
	}
}

// dropWaiting drops the packets that wait. They are counted.
func (p *peer) dropWaiting() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.in.waiting.bytes.Add(-p.waitBytes)
	p.in.stats.dropped.Add(uint64(len(p.waits)))
	p.waits, p.waitBytes, p.wants = nil, 0, false
}

// leave says that the peer is one no more.
func (p *peer) leave() {
	p.mu.Lock()
	p.gone = true
	p.mu.Unlock()
	p.dropWaiting()
}
