//go:build linux && (amd64 || arm64)

package netdev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/tun"
)

// shortPacket is up to how many bytes a packet in a slot is copied into a message: that costs less than
// telling the sender that its slot is free.
const shortPacket = 512

// readDevice sends what the kernel gives to the device.
func (in *Interface) readDevice(ctx context.Context) error {
	next := in.sendBuffers
	if in.slots != nil {
		next = in.sendSlots
	}
	err := next(ctx)
	if errors.Is(err, os.ErrClosed) && ctx.Err() != nil {
		return nil
	}
	return err
}

// collect takes back the buffers of sends that have ended.
func (in *Interface) collect() {
	in.sending.Lock()
	defer in.sending.Unlock()
	for {
		n, _ := in.sendCQ.Poll(in.ended[:]) // readFabric sees that the engine is gone
		sessions := *in.sessions.Load()
		for i := range in.ended[:n] {
			if p := sessions[in.ended[i].QPN]; p != nil {
				p.sendDone(in.ended[i].ID, in.ended[i].Status == cqe.StatusSuccess)
			}
		}
		if n < len(in.ended) {
			return
		}
	}
}

// take waits for a free buffer.
func (in *Interface) take(ctx context.Context) (n uint16, ok bool) {
	var since time.Time // when it began to wait; the clock is not read for nothing
	for {
		in.collect()
		select {
		case n = <-in.free:
			return n, true
		default:
		}
		now := time.Now()
		if since.IsZero() {
			since = now
		}
		if now.Sub(since) > stallTime {
			since = now
			in.short.Store(true)
			in.again()
		}
		in.timer.Reset(collectTime)
		select {
		case n = <-in.free:
			return n, true
		case <-ctx.Done():
			return 0, false
		case <-in.timer.C:
		}
	}
}

// sendBuffers reads packets into buffers and sends them from there. While no buffer is free, it does not
// read: that is what slows senders down.
func (in *Interface) sendBuffers(ctx context.Context) error {
	for {
		n, ok := in.take(ctx)
		if !ok {
			return nil
		}
		for sent := false; !sent; {
			b := in.send.at(int(n))[messageSize:]
			length, err := in.read(b)
			if err != nil {
				return err
			}
			if p := in.route(b[:length]); p != nil {
				sent = in.count(p.sendBuffer(n, length))
			}
		}
	}
}

// sendSlots is sendBuffers with slots. Short packets are copied into buffers, and so are those for peers
// that do not read the slots.
func (in *Interface) sendSlots(ctx context.Context) error {
	s := in.slots
	for {
		var n uint16
		select {
		case n = <-in.freeSlots:
		case <-ctx.Done():
			return nil
		}
		slot := s.slot(s.own, int(n))
		s.claim(slot)
		for sent := false; !sent; {
			b := slot[packetAt:]
			length, err := in.read(b)
			if err != nil {
				s.touch(slot) // the kernel cannot report that its pages are gone
				return err
			}
			b = b[:length]
			p := in.route(b)
			if p == nil {
				continue
			}
			// The last slot is not given away: a peer that holds it would stop all others.
			if length > shortPacket && len(in.freeSlots) > 0 && p.readsSlots() {
				sent = in.count(p.sendSlot(n, length))
				continue
			}
			copied, ok := in.take(ctx)
			if !ok {
				return nil
			}
			copy(in.send.at(int(copied))[messageSize:], b)
			if !in.count(p.sendBuffer(copied, length)) {
				in.free <- copied
			}
		}
	}
}

func (in *Interface) read(b []byte) (int, error) {
	n, err := in.dev.Read(b[:MaxPacket])
	if err != nil {
		return 0, fmt.Errorf("read the network interface: %w", err)
	}
	return n, nil
}

// route returns the peer for a packet, or nil if there is none, or the packet is too long for it. Then it
// counts the packet, and answers it.
func (in *Interface) route(b []byte) *peer {
	to, ok := tun.Destination(b)
	if !ok {
		in.stats.unreachable.Add(1)
		return nil
	}
	p := in.routes.Load().byAddress[to]
	if p == nil {
		in.stats.unreachable.Add(1)
		in.answerICMP(b, to, unreachable)
		return nil
	}
	if limit := limitOf(p.announced.mtu, to); limit < in.cfg.MTU && tooLong(b, limit) {
		in.stats.dropped.Add(1)
		in.answerICMP(b, to, limit)
		return nil
	}
	return p
}

// count counts a packet that was dropped, and reports whether it was sent. One that waits for a session is
// neither.
func (in *Interface) count(err error) bool {
	if err != nil && !errors.Is(err, errWaits) {
		in.stats.dropped.Add(1)
	}
	return err == nil
}

// readsSlots reports whether the peer reads the slots of this interface.
func (p *peer) readsSlots() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.readsOurs
}
