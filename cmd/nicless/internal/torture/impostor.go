package torture

import (
	"slices"
	"time"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// impersonate makes and destroys queue pairs in masses, in the hope of being given a
// number that somebody names as its peer, and connects them with queue pairs that are
// not its own: with orphans, whose peers' numbers are free, and with those of correct
// clients. The named queue pairs must notice nothing: orphans see that nothing comes,
// and correct clients account for all that they receive.
func (v *villain) impersonate() error {
	w, err := v.build()
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
			v.tell(massSize)
		}
	}
	return nil
}

// tryNumbers makes queue pairs, and looks whether one of them has the number of
// somebody's peer. One of them pretends to have it in any case.
func (v *villain) tryNumbers(w *world, victims []Orphan) error {
	made, err := v.mass(w)
	if err != nil {
		return err
	}
	for _, q := range made {
		for _, o := range victims {
			if q.qpn == o.Peer && q.kind == o.Type {
				if err := v.pretend(w, q, o.QPN); err != nil {
					return err
				}
			}
		}
	}
	if n := len(victims); n > 0 && len(made) > 0 && v.r.IntN(8) == 0 {
		if err := v.pretend(w, made[0], victims[v.r.IntN(n)].QPN); err != nil {
			return err
		}
	}
	return v.unmake(w, made)
}

// victims are queue pairs of others and whom they name.
func (v *villain) victims() []Orphan {
	select {
	case v.spec.Orphans = <-v.orphans:
	default:
	}
	victims := slices.Clone(v.spec.Orphans)
	for i, l := range v.spec.Others { // lanes of the two ends of a pair follow each other
		const lanes = 4
		if kind := uint8(l.QP.Transport); i/lanes%2 == 0 && i+lanes < len(v.spec.Others) {
			far := v.spec.Others[i+lanes]
			victims = append(victims, Orphan{QPN: l.QP.QPN, Peer: far.QP.QPN, Type: kind}, Orphan{QPN: far.QP.QPN, Peer: l.QP.QPN, Type: kind})
		}
	}
	return victims
}

// massSize is how many queue pairs are asked for at once, without waiting for answers.
// They share one piece of memory.
const massSize = 32

func (v *villain) mass(w *world) (made []*scribbled, err error) {
	base := w.mem.Addr()
	kind := uint8(v.r.IntN(2)) // RC or UC
	first := w.tag + 1
	for range massSize {
		req := &control.QP{
			PDN: w.pd, SendCQN: w.cqs[0], RecvCQN: w.cqs[1], SQ: base + atPayload, RQ: base + atPayload + 4096,
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
		if h.Op == control.OpCreateQP && h.Flags&control.FlagError == 0 && control.Parse(h.Op, payload, &qpn) == nil {
			b := w.mem.Bytes()[atPayload:]
			made = append(made, &scribbled{qpn: qpn.QPN, kind: kind, sq: b[:64<<2], rec: b[8192:][:8]})
		}
		if h.Tag == w.tag {
			return made, nil
		}
	}
	return made, nil
}

func (v *villain) unmake(w *world, made []*scribbled) error {
	for _, q := range made {
		w.tag++
		if err := w.send(control.Append(nil, control.OpDestroyQP, 0, w.tag, &control.QPN{QPN: q.qpn})); err != nil {
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

// pretend connects a queue pair with somebody else's and sends.
func (v *villain) pretend(w *world, q *scribbled, to uint32) error {
	w.qps = append(w.qps, q)
	defer func() { w.qps = w.qps[:len(w.qps)-1] }()
	if err := v.connect(w, len(w.qps)-1, to); err != nil {
		return err
	}
	for range 2 {
		b := wqe.Start(q.sq, q.next)
		b.Inline([]byte("from somebody else"))
		if blocks, err := b.Finish(wqe.Ctrl{Opcode: wqe.OpSend, QPN: q.qpn, Flags: wqe.CEAlways}); err == nil {
			q.next += uint16(blocks)
		}
	}
	q.publish()
	// Whatever comes of it is there before the queue pair is destroyed.
	v.pause(5 * time.Millisecond)
	return nil
}
