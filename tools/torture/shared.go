//go:build linux && (amd64 || arm64)

package torture

import "github.com/nicless/nicless"

// sharedDepth is the number of receives of a shared queue. It is enough for everything that the
// peers of two flows may have in flight, because UC loses a message if there is no receive.
const sharedDepth = 2 * fullDepth

// A shared is a shared receive queue and its buffers. The device chooses which queue pair takes
// the next buffer, and long messages may end after short ones. Each buffer must complete once.
type shared struct {
	srq    *nicless.SRQ
	mr     *nicless.MR
	posted [sharedDepth]bool
}

func newShared(pd *nicless.PD) (*shared, error) {
	mr, err := pd.RegisterMemory(sharedDepth*recvSize, nicless.LocalWrite)
	return &shared{mr: mr}, err
}

// open makes the queue for a new connection and fills it.
func (s *shared) open(pd *nicless.PD) (err error) {
	poisonAll(s.mr.Bytes())
	clear(s.posted[:])
	s.srq, err = pd.CreateSRQ(
		nicless.SRQConfig{MaxWR: sharedDepth, MaxSGE: 2, Limit: sharedDepth / 2})
	if err != nil {
		return err
	}
	for i := range uint64(sharedDepth) {
		if err := s.post(i); err != nil {
			return err
		}
	}
	return nil
}

func (s *shared) post(i uint64) error {
	s.posted[i] = true
	return s.srq.PostRecv(&nicless.RecvWR{ID: i, SGE: recvList(s.mr, i)})
}

// complete notes a completion. It returns false if the buffer was not posted.
func (s *shared) complete(i uint64) bool {
	ok := i < sharedDepth && s.posted[i]
	if ok {
		s.posted[i] = false
	}
	return ok
}

// recvSpans appends the spans of a message of size bytes in receive buffer i. There are two
// pieces; the length of the first varies with i.
func recvSpans(dst []span, i uint64, size int) []span {
	first := 64 + int(i%16)*24
	at := int(i)*recvSize + guard
	dst = append(dst, span{at, min(first, size)})
	if size > first {
		dst = append(dst, span{at + first + guard, size - first})
	}
	return dst
}

// recvList returns all of receive buffer i.
func recvList(mr *nicless.MR, i uint64) []nicless.SGE {
	var spans [2]span
	list := make([]nicless.SGE, 0, 2)
	for _, s := range recvSpans(spans[:0], i, recvSize-3*guard) {
		list = append(list, mr.SGE(s.off, s.n))
	}
	return list
}
