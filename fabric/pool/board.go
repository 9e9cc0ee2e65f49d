package pool

import (
	"errors"
	"fmt"

	"github.com/nicless/nicless/internal/board"
)

// boardHead is the first line of a board, which has what clients of the node's engine announce:
//
//	0   sequence: another one after each change
//	8   bytes of the list
//	16  0
//	56  CRC-64/ECMA of bytes 8 to 55 and of the list
//	64  list, as package internal/board writes it; 0 behind it up to a multiple of 8
const boardHead = 64

// words rounds up to whole words.
func words(n int) int { return (n + 7) &^ 7 }

// boardOf returns the bytes of a board with this list. The sequence is 0.
func boardOf(list []byte) []byte {
	b := make([]byte, boardHead+words(len(list)))
	be.PutUint64(b[8:], uint64(len(list)))
	copy(b[boardHead:], list)
	be.PutUint64(b[56:], describeSum(b[:boardHead+len(list)]))
	return b
}

// post publishes what clients of this node's engine announce. One goroutine calls it at a time.
//
// Publish: first line of the board, its sequence last. Observed by view.postedAt.
func (v *view) post(part uint64, list []byte) (sequence uint64) { return v.postAt(part+boardAt, list) }

// postAt publishes bytes in the form of a board at an offset.
//
// Publish: as view.post; first line of a summary, its sequence last. Observed by view.postedAt.
func (v *view) postAt(at uint64, list []byte) (sequence uint64) {
	b := boardOf(list)
	v.write(at+boardHead, b[boardHead:])
	for i := 8; i < boardHead; i += 8 {
		v.put(at+uint64(i), be.Uint64(b[i:]))
	}
	sequence = max(1, v.word(at)+1) // link.boardSequence is 0 if no board has been read
	v.put(at, sequence)
	v.writeBack(at, boardHead)
	return sequence
}

// errUnchanged says that a board is as it was when it was read last.
var errUnchanged = errors.New("nothing new")

// posted returns the announcements on another node's board, and the sequence of the board; see postedAt.
func (v *view) posted(part, known uint64) (list []board.Entry, sequence uint64, err error) {
	b, sequence, err := v.postedAt(part+boardAt, known, board.Max)
	if err != nil {
		return nil, sequence, err
	}
	list, err = board.Parse(b)
	return list, sequence, err
}

// postedAt returns what another node has published in the form of a board, at most so many bytes, and its
// sequence. If the node changes it meanwhile, the sequence may be an older one. It returns errUnchanged if
// the sequence is the one that is known, and errTorn if the check sum is wrong because the node is writing.
//
// Observe: first line of the board or of the summary, its sequence first. Published by view.postAt.
func (v *view) postedAt(at, known uint64, most int) (list []byte, sequence uint64, err error) {
	var head [boardHead]byte
	v.read(at, head[:])
	sequence = be.Uint64(head[0:])
	n := be.Uint64(head[8:])
	switch {
	case sequence == known:
		return nil, sequence, errUnchanged
	case n > uint64(most):
		return nil, sequence, fmt.Errorf("its list has %d bytes; %d are possible", n, most)
	}
	b := make([]byte, boardHead+words(int(n)))
	copy(b, head[:])
	v.read(at+boardHead, b[boardHead:])
	if be.Uint64(b[56:]) != describeSum(b[:boardHead+n]) {
		return nil, sequence, errTorn
	}
	return b[boardHead : boardHead+n], sequence, nil
}

// receiveBoard reads the board of the other node if it has changed. The device is given its announcements at
// the end of the look. If the board is wrong, it has no announcements. The link stays up.
//
// posted is what the line that says that the node lives says of the board.
func (l *link) receiveBoard(posted uint64) {
	if posted == l.postedSeen {
		return
	}
	list, sequence, err := l.p.view.posted(l.part, l.boardSequence)
	switch {
	case errors.Is(err, errUnchanged):
		l.postedSeen = posted
		return
	case errors.Is(err, errTorn):
		return // the announcements that were read last stay
	case err != nil:
		l.p.cfg.Log.Warn("announcements of a node are not understood", "link", l.p.Name(), "node", l.peer, "error", err.Error())
	}
	l.boardSequence, l.postedSeen = sequence, posted
	l.announced, l.listed = list, true
	l.p.boards = append(l.p.boards, l)
}

// announce gives the device the announcements of boards that were read. That is after publish: whoever reads
// an announcement finds the way to its engine.
func (p *Pool) announce() {
	for _, l := range p.boards {
		if l.listed { // not withdrawn meanwhile
			list := l.announced
			p.aside(func() { p.dev.SetAnnounced(l, l.desc.guid, list) })
		}
		l.announced = nil
	}
	p.boards = p.boards[:0]
}

// withdrawBoard withdraws what clients of the other engine have announced.
func (l *link) withdrawBoard() {
	if !l.listed {
		return
	}
	l.boardSequence, l.postedSeen, l.listed = 0, 0, false
	l.p.aside(func() { l.p.dev.SetAnnounced(l, l.desc.guid, nil) })
}
