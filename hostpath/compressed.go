package hostpath

import "github.com/nicless/nicless/cqe"

// A device may compress the completions of a queue that allows it (CQConfig.Compressed). A
// session of compressed completions replaces several entries of one QP. It consists of a
// title entry, and of arrays of minis in the slots after the title. Each mini says how one
// completion differs from the title. See [cqe.Expand].
//
// Most sessions are taken whole: see takeSession. Otherwise the poller expands a session: it writes
// the entries that a device without compression would have written, each into its slot. Then it reads
// these entries like all others. The slots belong to the poller until it publishes a consumer index
// beyond them. The expanded entries get the owner bits of this lap, so that bytes left in the slots do
// not look valid in the next lap.

// expandSession expands the session whose title is entry number index. o is the op_own of
// the title, which the caller has observed. The device wrote the minis before the title.
// expandSession returns the op_own of the entry that is in the title's slot afterwards. If the
// title does not begin a valid session, the result is o.
func (q *CQ) expandSession(index uint64, o cqe.OpOwn) cqe.OpOwn {
	x, err := cqe.Expand((*[cqe.Size]byte)(q.entry(index)), index, q.log, q.mini)
	if err != nil {
		return o
	}
	var minis [cqe.Size]byte
	for i := 0; x.Left() > 0; i++ {
		slots, at := cqe.MiniPlace(i)
		if at == 0 {
			// The array is copied, because one of its own completions will overwrite its slot.
			minis = *q.entry(index + uint64(slots))
		}
		c, _ := x.Next(cqe.ParseMini((*[cqe.MiniSize]byte)(minis[at*cqe.MiniSize:])))
		c.Put((*[cqe.Size]byte)(q.entry(index + uint64(i))))
	}
	return cqe.OpOwn(q.entry(index)[cqe.OffOpOwn])
}

// isTitle reports whether an entry, whose op_own is o, is the title of a session. In a queue
// without compression no entry is a title.
func (q *CQ) isTitle(o cqe.OpOwn) bool {
	return o.Format() == cqe.FormatCompressed && q.compressed
}
