//go:build linux && (amd64 || arm64)

package torture

import (
	"slices"
	"time"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// impersonate creates and destroys very many queue pairs, in order to get a number that a queue
// pair of another client names as its peer. It connects its queue pairs with queue pairs of
// others: with half-open ones, whose peers' numbers are free, and with queue pairs of correct clients.
// The queue pairs of others must receive nothing from it. The visitor checks that half-open ones
// receive nothing. Correct clients check everything that they receive.
func (v *hostile) impersonate() error {
	w, err := v.create()
	if err != nil {
		return err
	}
	defer w.destroy()
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
		victims := v.victims()
		for range 16 {
			if err := v.tryNumbers(w, victims); err != nil {
				return err
			}
			v.did(massSize)
		}
	}
	return nil
}

// tryNumbers creates queue pairs and connects those that have the number of a victim's peer.
// Sometimes it also connects a queue pair that has a different number.
func (v *hostile) tryNumbers(w *objects, victims []HalfOpenQP) error {
	made, err := v.createMany(w)
	if err != nil {
		return err
	}
	for _, q := range made {
		for _, o := range victims {
			if q.qpn == o.Peer && q.kind == o.Type {
				if err := v.connectAsPeer(w, q, o.QPN); err != nil {
					return err
				}
			}
		}
	}
	if n := len(victims); n > 0 && len(made) > 0 && v.r.IntN(8) == 0 {
		if err := v.connectAsPeer(w, made[0], victims[v.r.IntN(n)].QPN); err != nil {
			return err
		}
	}
	return v.destroyMany(w, made)
}

// victims returns queue pairs of other clients and the peers that they name.
func (v *hostile) victims() []HalfOpenQP {
	select {
	case v.spec.HalfOpen = <-v.halfOpen:
	default:
	}
	victims := slices.Clone(v.spec.HalfOpen)
	// in Victims the flows of a pair's second end follow those of its first
	for i, l := range v.spec.Victims {
		const flows = 4
		if i/flows%2 == 0 && i+flows < len(v.spec.Victims) {
			kind := uint8(l.QP.Transport)
			far := v.spec.Victims[i+flows]
			victims = append(victims, HalfOpenQP{QPN: l.QP.QPN, Peer: far.QP.QPN, Type: kind},
				HalfOpenQP{QPN: far.QP.QPN, Peer: l.QP.QPN, Type: kind})
		}
	}
	return victims
}

// massSize is how many queue pairs are requested at once, without waiting for answers.
// They share one piece of memory.
const massSize = 32

func (v *hostile) createMany(w *objects) (made []*hostileQP, err error) {
	base := w.mem.Addr()
	kind := uint8(v.r.IntN(2)) // RC or UC
	first := w.tag + 1
	for range massSize {
		req := &control.QP{
			PDN: w.pd, SendCQN: w.cqs[0], RecvCQN: w.cqs[1], SQ: base + atPayload,
			RQ:    base + atPayload + 4096,
			DBRec: base + atPayload + 8192, Type: kind, LogSQ: 2, LogRQ: 2, LogRQStride: 6,
		}
		w.tag++
		if err := w.send(control.Append(nil, control.OpCreateQP, 0, w.tag, req)); err != nil {
			return nil, err
		}
	}
	for w.tag >= first {
		h, payload, err := w.receive()
		if err != nil {
			return nil, err
		}
		var qpn control.QPN
		if h.Op == control.OpCreateQP && h.Flags&control.FlagError == 0 &&
			control.Parse(h.Op, payload, &qpn) == nil {
			b := w.mem.Bytes()[atPayload:]
			made = append(made, &hostileQP{qpn: qpn.QPN, kind: kind, sq: b[:64<<2], rec: b[8192:][:8]})
		}
		if h.Tag == w.tag {
			return made, nil
		}
	}
	return made, nil
}

func (v *hostile) destroyMany(w *objects, made []*hostileQP) error {
	for _, q := range made {
		w.tag++
		if err := w.send(
			control.Append(nil, control.OpDestroyQP, 0, w.tag, &control.QPN{QPN: q.qpn})); err != nil {
			return err
		}
	}
	for range made {
		if _, _, err := w.receive(); err != nil {
			return err
		}
	}
	return nil
}

// connectAsPeer connects a queue pair with a queue pair of another client and sends.
func (v *hostile) connectAsPeer(w *objects, q *hostileQP, to uint32) error {
	w.qps = append(w.qps, q)
	defer func() { w.qps = w.qps[:len(w.qps)-1] }()
	if err := v.connect(w, len(w.qps)-1, to); err != nil {
		return err
	}
	for range 2 {
		b := wqe.Start(q.sq, q.next)
		b.Inline([]byte("from an impostor"))
		if blocks, err := b.Finish(
			wqe.Ctrl{Opcode: wqe.OpSend, QPN: q.qpn, Flags: wqe.CEAlways}); err == nil {
			q.next += uint16(blocks)
		}
	}
	q.publish()
	// Give the engine time to execute the work before the queue pair is destroyed.
	v.pause(5 * time.Millisecond)
	return nil
}
