//go:build linux && (amd64 || arm64)

package netdev

import (
	"context"
	"errors"
	"time"

	"github.com/nicless/nicless"
)

const (
	// knowTime is how long a dial of an unknown client waits: its announcement may still be on the way.
	knowTime = time.Second

	// answerPause is the least time between two dials of a peer that are answered. A queue pair costs a
	// fraction of a millisecond.
	answerPause = 5 * time.Millisecond
)

// A call is a dial that has come.
type call struct {
	*nicless.IncomingDial
	since time.Time
}

// takeCalls waits for dials. The channel has room for as many as the listener: if they are not answered,
// others wait in the engine.
func (in *Interface) takeCalls(ctx context.Context) error {
	for {
		d, err := in.listener.Accept(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		select {
		case in.incoming <- d:
			in.again()
		case <-ctx.Done():
			return nil
		}
	}
}

// answerCalls answers the dials that have come.
func (in *Interface) answerCalls(now time.Time) error {
	for len(in.calls) < nicless.MaxBacklog {
		select {
		case d := <-in.incoming:
			in.addCall(call{d, now})
			continue
		default:
		}
		break
	}
	for p := range in.active {
		p.called = false
	}
	left := in.calls[:0]
	for _, c := range in.calls {
		device, box := c.Caller()
		p := in.byBox[boxID{device, box}]
		answered, err := in.answer(c, p, now)
		if err != nil {
			return err
		}
		if !answered {
			left = append(left, c)
			if p != nil {
				p.called = true
			}
		}
	}
	clear(in.calls[len(left):])
	in.calls = left
	return nil
}

// addCall adds a dial. It takes the place of an earlier one of the same client, which has no use for two:
// else one that dials without a pause would keep all others waiting.
func (in *Interface) addCall(c call) {
	device, box := c.Caller()
	for i, old := range in.calls {
		if d, b := old.Caller(); d == device && b == box {
			_ = refuse(old, "the client has dialled again")
			c.since = old.since
			in.calls[i] = c
			return
		}
	}
	in.calls = append(in.calls, c)
}

// answer answers a dial of p (nil: of an unknown client), or returns false if it has to wait.
func (in *Interface) answer(c call, p *peer, now time.Time) (answered bool, err error) {
	device, _ := c.Caller()
	switch {
	case c.GaveUp():
		return true, nil
	case p == nil && device != 0 && now.Sub(c.since) < knowTime:
		in.later(knowTime / 20)
		return false, nil
	case p == nil:
		return true, refuse(c, "no interface is known here that has this box")
	case c.Peer().Transport != nicless.RC:
		return true, refuse(c, "its queue pair is not RC")
	case p.phase == dialling && in.life < p.announced.life:
		return true, refuse(c, crossing)
	case now.Before(p.answerAt):
		in.later(p.answerAt.Sub(now))
		return false, nil
	}
	if err := p.end("it begins the connection anew"); err != nil {
		return false, err
	}
	if p.underWay > 0 {
		// The dial of this side has to be given up first: then the peer knows so when it knows that this side
		// has accepted, and does not take that dial for a later one.
		return false, nil
	}
	if err := in.room(now); errors.Is(err, errRoomSoon) {
		return false, nil
	} else if err != nil {
		p.warn("peer cannot be reached", err.Error())
		return true, refuse(c, err.Error())
	}
	p.answerAt = now.Add(answerPause)
	err = p.begin(accepting, now, func(ctx context.Context, qp *nicless.QP) error {
		return c.Accept(ctx, qp, connection)
	})
	if p.phase == closed {
		_ = refuse(c, "the interface has no queue pair for it") // else the dialler waits for openTime
	}
	return true, err
}

// refuse refuses a dial. Should it fail, the dialler gives up after some time.
func refuse(c call, why string) error {
	_ = c.Reject(why)
	return nil
}
