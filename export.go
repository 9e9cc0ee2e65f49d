package nicless

import (
	"errors"
	"fmt"

	"github.com/nicless/nicless/hostpath"
)

// The forms in which a queue pair is given to accelerators.
type (
	// An Export is the argument of accel.NewQueue.
	Export = hostpath.Export

	// A Raw is the shared memory of a queue pair.
	//
	//	QPN      uint32
	//	Send     []byte // ring of blocks of 64 bytes
	//	Recv     []byte // ring of Receives entries; nil: receives come from an SRQ
	//	Receives int
	//	Record   []byte // doorbell record, 8 bytes
	//	Register []byte // doorbell register, two halves of 256 bytes
	//	SendCQ   RawCQ
	//	RecvCQ   RawCQ
	//
	// The methods SendParams and RecvParams return a Raw as parameters for RDMaxcel's
	// functions.
	Raw = hostpath.Raw

	// A RawCQ is the shared memory of a completion queue. Its fields are Ring, which has
	// entries of EntrySize bytes, and Record, 8 bytes. The method PollParams returns a
	// RawCQ as parameters for RDMaxcel's functions.
	RawCQ = hostpath.RawCQ
)

// Export lets an accelerator use a Concurrent queue pair. The accelerator posts to the
// queue pair and polls its SendCQ, while the host may do so too. The SendCQ must be
// PollOnly or Collapsed, because a goroutine in Wait could miss completions that another
// poller takes. After Export, a Collapsed SendCQ belongs to the sends of this queue pair
// alone. Other queue pairs and receives cannot use it, because their completions would
// overwrite those of the sends. The Export is valid until the queue pair is closed.
func (q *QP) Export() (Export, error) {
	const what = "export QP"
	if err := q.usable(); err != nil {
		return Export{}, wrap(what, err)
	}
	switch {
	case q.crowd == nil:
		return Export{}, wrap(what, errors.New("made without Concurrent"))
	case q.cqs[0].channel != nil:
		return Export{}, wrap(what, errors.New("its SendCQ has a channel; make it PollOnly or Collapsed"))
	}
	if cq := q.cqs[0]; cq.cfg.Collapsed {
		if n := cq.senders.Load(); n != 1 {
			return Export{}, wrap(what, fmt.Errorf("its SendCQ %#06x is collapsed and has the sends of %d queue pairs; give it one of its own", cq.cqn, n))
		}
		cq.exported.Store(true)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.sink == nil {
		var err error
		if q.sink, err = q.pd.RegisterMemory(8, LocalWrite); err != nil {
			return Export{}, err
		}
	}
	return Export{Send: q.crowd, SendCQ: q.cqs[0].cq, Sink: q.sink.SGE(0, 8), Err: q.ended, Wake: q.c.waker.wake}, nil
}

// ended returns why no further send will complete, or nil if sends can complete.
func (q *QP) ended() error {
	if err := q.usable(); err != nil {
		return err
	}
	if q.cqs[0].overrun.Load() {
		return ErrOverrun
	}
	return nil
}

// Raw returns the shared memory of the queue pair, for code that writes WQEs itself, as
// RDMaxcel does. A program posts and polls either through this memory or by the methods of
// QP and CQ, but not both. The memory is valid until the queue pair is closed, and only
// while the program refers to the QP (see runtime.KeepAlive). Raw returns an error if the queue
// pair was made with QPConfig.BlueFlame, or if one of its CQs was made with CQConfig.Compressed.
func (q *QP) Raw() (Raw, error) {
	if err := q.usable(); err != nil {
		return Raw{}, wrap("raw QP", err)
	}
	if q.blueFlame != 0 {
		return Raw{}, wrap("raw QP", errors.New("made with BlueFlame: its register is for WQEs of its own poster"))
	}
	if q.cqs[0].cfg.Compressed || q.cqs[1].cfg.Compressed {
		return Raw{}, wrap("raw QP", errors.New("its CQ is Compressed: RDMaxcel's functions read ordinary entries only"))
	}
	q.c.sharedRaw()
	r := Raw{
		QPN: q.qpn, Send: q.sends.Memory(), Record: q.rec.mem[:8:8], Register: q.register,
		SendCQ: q.cqs[0].raw(), RecvCQ: q.cqs[1].raw(),
	}
	if q.rq != nil {
		r.Recv, r.Receives = q.rq.Memory(), q.rq.Entries()
	}
	return r, nil
}

func (q *CQ) raw() RawCQ {
	return RawCQ{Ring: q.cq.Memory(), EntrySize: q.cfg.entrySize(), Record: q.rec.mem[:8:8]}
}
