package hostpath

import "github.com/nicless/nicless/cqe"

// A device may compress completions of a queue that was made so: one title
// entry stands for several completions of one QP, and the slots behind it hold
// arrays of minis, which say what differs. See [cqe.Expand].
//
// The poller writes the completions back into the slots that they stand for,
// each as the entry that a device without compression would have written, and
// then reads them like any other. The slots are the poller's until it publishes the
// consumer index behind them. Their owner bits become those of this lap, so that
// bytes left in them do not look valid in the next.

// expand expands the session whose title is the entry of index. It returns the
// op_own of the entry that is there now; o, that of the title, if the title
// stands for no session. The title has been observed; the device wrote the
// minis before it.
func (q *CQ) expand(index uint64, o cqe.OpOwn) cqe.OpOwn {
	x, err := cqe.Expand((*[cqe.Size]byte)(q.entry(index)), index, q.log, q.mini)
	if err != nil {
		return o
	}
	var minis [cqe.Size]byte
	for i := 0; x.Left() > 0; i++ {
		slots, at := cqe.MiniPlace(i)
		if at == 0 {
			// The array lies in a slot that one of its own completions is written to.
			minis = *q.entry(index + uint64(slots))
		}
		c, _ := x.Next(cqe.ParseMini((*[cqe.MiniSize]byte)(minis[at*cqe.MiniSize:])))
		c.Put((*[cqe.Size]byte)(q.entry(index + uint64(i))))
	}
	return cqe.OpOwn(q.entry(index)[cqe.OffOpOwn])
}

// title reports whether an entry is the title of a session. Of a queue that was
// not made with compression no entry is.
func (q *CQ) title(o cqe.OpOwn) bool {
	return o.Format() == cqe.FormatCompressed && q.compressed
}
