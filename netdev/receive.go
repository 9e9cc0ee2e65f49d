//go:build linux && (amd64 || arm64)

package netdev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/tun"
)

// headLength is how many bytes of a packet are copied before they are checked: the virtio
// header and the longest headers of IP and TCP.
const headLength = HeaderSize + 120

// readFabric gives the kernel what peers send, and keeps the sessions.
func (in *Interface) readFabric(ctx context.Context) error {
	in.running = ctx
	in.board.Store(true)
	in.changed.Store(true)
	defer in.connecting.Wait()
	done := make([]nicless.Completion, 32)
	for ctx.Err() == nil {
		if in.changed.Swap(false) {
			if err := in.look(); err != nil {
				return err
			}
		}
		n, err := in.recvCQ.Poll(done)
		if n == 0 && err == nil {
			in.reportAll()
			n, err = in.waitFor(ctx, done)
		}
		if err := errors.Join(in.completeAll(done[:n]), err); err != nil {
			return err
		}
	}
	return nil
}

func (in *Interface) completeAll(done []nicless.Completion) error {
	for i := range done {
		if err := in.complete(&done[i]); err != nil {
			return err
		}
	}
	return nil
}

// drain takes all completions that are there.
func (in *Interface) drain() error {
	var done [32]nicless.Completion
	for {
		n, err := in.recvCQ.Poll(done[:])
		if err := errors.Join(in.completeAll(done[:n]), err); n == 0 || err != nil {
			return err
		}
	}
}

// waitFor waits for completions, or until again is called. Then it returns 0.
func (in *Interface) waitFor(ctx context.Context, done []nicless.Completion) (int, error) {
	if in.wait == nil || in.wait.Err() != nil {
		in.mu.Lock()
		in.wait, in.wake = context.WithCancel(ctx)
		in.mu.Unlock()
	}
	if in.changed.Load() {
		return 0, nil
	}
	n, err := in.linger.poll(in.recvCQ, done, in.changed.Load)
	if n > 0 || err != nil {
		return n, err
	}
	n, err = in.recvCQ.Wait(in.wait, done)
	if in.wait.Err() != nil {
		err = nil
	}
	return n, err
}

func (in *Interface) postReceive(n int) error {
	sge := [1]nicless.SGE{in.receive.sge(n, bufferSize)}
	return in.srq.PostRecv(&nicless.RecvWR{ID: uint64(n), SGE: sge[:]})
}

// complete takes the completion of one receive. If it failed, so has the queue pair, and watch gets the
// event.
func (in *Interface) complete(c *nicless.Completion) error {
	p := (*in.sessions.Load())[c.QPN]
	if p != nil && c.Status == cqe.StatusSuccess {
		if err := p.take(in.receive.at(int(c.ID))[:c.ByteLen]); err != nil {
			p.refuse(err)
		}
	}
	return in.postReceive(int(c.ID))
}

// take takes a message. The peer cannot change it any more.
func (p *peer) take(b []byte) error {
	var head [messageSize]byte
	copy(head[:], b)
	m, err := parseMessage(&head, len(b))
	if err != nil {
		return err
	}
	if err := p.slotsDone(m.freed, m.reads); err != nil {
		p.fail()
		return err
	}
	switch m.kind {
	case kindPacket:
		return p.deliver(b[messageSize:])
	case kindSlot:
		err := p.takeSlot(m)
		p.consumed.Add(1)
		p.reportFreed(max(1, uint32(p.announced.slots)/4))
		if !p.unreported {
			p.unreported = true
			p.in.unreported = append(p.in.unreported, p)
		}
		return err
	case kindEnd:
		p.ended = true
		p.in.again()
	}
	return nil
}

// takeSlot gives the kernel the packet in a slot of the peer.
func (p *peer) takeSlot(m message) error {
	s := p.in.slots
	if !p.readable {
		return errors.New("a packet in a slot; this interface does not read its slots")
	}
	if int(m.slot) >= min(s.count, p.announced.slots) {
		return fmt.Errorf("a packet in slot %d; it has %d slots", m.slot, min(s.count, p.announced.slots))
	}
	b, ok := s.open(s.slot(p.announced.area, int(m.slot)), m.tag, int(m.length))
	if !ok {
		return fmt.Errorf("a packet in slot %d, which does not belong to the message any more", m.slot)
	}
	return p.deliver(b)
}

// deliver gives the kernel a packet with its virtio header. The peer may change the bytes meanwhile, so
// the headers are copied and the copy is checked, and the kernel gets the copy.
func (p *peer) deliver(b []byte) error {
	in := p.in
	n := copy(in.head[:], b)
	head := in.head[:n]
	if err := tun.Check(head, len(b)-HeaderSize); err != nil {
		return err
	}
	from, ok := tun.Source(head)
	if !ok || !slices.Contains(p.announced.addresses, from) {
		return fmt.Errorf("a packet from %v, which is not its address", from)
	}
	to, ok := tun.Destination(head)
	if !ok || !slices.Contains(in.addresses(), to) {
		return fmt.Errorf("a packet to %v, which is not an address of this interface", to)
	}
	if err := in.dev.Write(head, b[n:]); err != nil {
		if errors.Is(err, os.ErrClosed) {
			return nil // the interface ends
		}
		return fmt.Errorf("the kernel refuses a packet of %d bytes: %w", len(b)-HeaderSize, err)
	}
	p.stats.received(len(b))
	return nil
}

// refuse counts a message that was refused. The log has the first of a session.
func (p *peer) refuse(err error) {
	p.stats.refused.Add(1)
	if !p.warned {
		p.warned = true
		p.in.log.Warn("message refused; others of this peer are only counted", "peer", p, "why", err.Error())
	}
}

// reportAll reports to all peers which of their slots are free.
func (in *Interface) reportAll() {
	left := in.unreported[:0]
	for _, p := range in.unreported {
		p.unreported = !p.reportFreed(1)
		if p.unreported {
			left = append(left, p)
		}
	}
	if len(left) > 0 {
		in.later(10 * lookAgain) // completions of sends wake nobody
	}
	clear(in.unreported[len(left):])
	in.unreported = left
}
