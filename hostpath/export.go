package hostpath

import (
	"errors"

	"github.com/nicless/nicless/internal/post"
)

// Export hands a Concurrent queue pair to an accelerator, which posts to it and
// polls its SendCQ beside the host. Its SendCQ must be PollOnly or Collapsed:
// nobody sleeps on completions that somebody else may take. It is good until
// the queue pair is closed.
func (q *QP) Export() (post.Export, error) {
	const what = "export QP"
	if err := q.usable(); err != nil {
		return post.Export{}, wrap(what, err)
	}
	switch {
	case q.crowd == nil:
		return post.Export{}, wrap(what, errors.New("made without Concurrent"))
	case q.cqs[0].channel != nil:
		return post.Export{}, wrap(what, errors.New("its SendCQ has a channel; make it PollOnly or Collapsed"))
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.sink == nil {
		var err error
		if q.sink, err = q.pd.RegisterMemory(8, LocalWrite); err != nil {
			return post.Export{}, err
		}
	}
	return post.Export{Send: q.crowd, SendCQ: q.cqs[0].cq, Sink: q.sink.SGE(0, 8), Err: q.usable}, nil
}

// Raw returns the shared memory of the queue pair, to be written WQE by WQE as
// RDMaxcel does. Post and poll by it or by the methods of QP and CQ, not by
// both. It is good until the queue pair is closed.
func (q *QP) Raw() (post.Raw, error) {
	if err := q.usable(); err != nil {
		return post.Raw{}, wrap("raw QP", err)
	}
	r := post.Raw{
		QPN: q.qpn, Send: q.sends.Memory(), Record: q.rec.mem[:8:8], Register: q.register,
		SendCQ: q.cqs[0].raw(), RecvCQ: q.cqs[1].raw(),
	}
	if q.rq != nil {
		r.Recv, r.Receives = q.rq.Memory(), q.rq.Entries()
	}
	return r, nil
}

func (q *CQ) raw() post.RawCQ {
	return post.RawCQ{Ring: q.cq.Memory(), EntrySize: q.cfg.entrySize(), Record: q.rec.mem[:8:8]}
}
