//go:build linux && (amd64 || arm64)

package recovery

import (
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/nicless/nicless/internal/clock"
)

// An Agreement is how far an end has come with asking the other end of a path whether it understands reports.
// Each end asks for itself. Each question has a random number, and only the answer with the latest number
// counts, so that nobody who cannot read the packets of the path can answer.
type Agreement struct {
	nonce  uint64
	sentAt uint64 // when the question was sent last
	times  int    // how often

	confirmed uint64 // when the peer has answered last
	open      int    // questions since then, by Confirm
}

// MADSize is the size of a question, and of an answer.
const MADSize = 256

// mostQuestions is how often a peer is asked that does not answer. The first question goes when the path is
// opened, the others when packets were lost, so a path that loses half of its packets answers nearly always.
const mostQuestions = 16

// leastPause is how long the second question waits at least. Each other waits twice as long as the one
// before: on any path the answer to one comes at last before the number of the next counts.
const leastPause = time.Millisecond

// mostDoubled is how often the pause doubles: to a second.
const mostDoubled = 10

// The host of a peer may restart as another device, which understands no reports, while queue pairs use the
// path. So if the peer sends packets that show a loss, it is asked again when its last answer is older than
// confirmedFor, and the agreement ends when it has not answered mostOpen questions: on a path that loses one
// packet of ten that happens after 7 of 1000 such times, and the next answer renews the agreement.
const (
	confirmedFor = 100 * time.Millisecond
	mostOpen     = 3
)

// The form of a question: a management datagram of the class of the messages between engines (package
// rendezvous), which other devices pass over. Those messages have the attribute 0.
//
//	0   base version 1, class, class version 1, method Send (3)
//	4   zeros, 12 bytes
//	16  attribute, 2 bytes: 1 question, 2 answer
//	18  zeros, 18 bytes
//	36  0, and the OUI, 3 bytes
//	40  zeros, 8 bytes
//	48  the number, 8 bytes
//	56  how far before the expected packet this end keeps packets on a long path, 4 bytes; 0: as on others
//	60  zeros
const (
	class       = 0x3d
	attributeAt = 16
	ouiAt       = 36
	nonceAt     = 48
	reachAt     = 56

	question = 1
	answer   = 2
)

var begins = [4]byte{1, class, 1, 3}
var oui = [4]byte{0, 0x02, 'n', 'l'}

// Query returns a question at the time now, if it is time for one.
func (w *Path) Query(now uint64) (mad [MADSize]byte, ok bool) {
	a := &w.Agreement
	early := a.times > 0 && now-a.sentAt < clock.Cycles(leastPause)<<min(a.times-1, mostDoubled)
	if w.Agreed || early || a.times >= mostQuestions {
		return mad, false
	}
	a.nonce = rand.Uint64()
	a.times++
	a.sentAt = now
	return form(question, a.nonce), true
}

// Confirm is called at the time now when a packet of the peer has shown a loss. It returns a question if it
// is time to ask again whether the peer understands reports. If it has not answered, the agreement ends.
// Silence of the peer alone does not end it.
func (w *Path) Confirm(now uint64) (mad [MADSize]byte, ok bool) {
	a := &w.Agreement
	if !w.Agreed || a.open == 0 && now-a.confirmed < clock.Cycles(confirmedFor) {
		return mad, false
	}
	if a.open > 0 && now-a.sentAt < max(w.RoundTrip.Silence(), clock.Cycles(leastPause)) {
		return mad, false
	}
	if a.open == mostOpen {
		w.Agreed, w.Agreement = false, Agreement{}
		return w.Query(now)
	}
	if a.open == 0 { // otherwise the same number: the round trip may be longer than Silence now
		a.nonce = rand.Uint64()
	}
	a.sentAt = now
	a.times = max(a.times, 1)
	a.open++
	return form(question, a.nonce), true
}

// Answered is called for the answer with a number, which has come at the time now. reach is that of the peer.
func (w *Path) Answered(nonce uint64, reach uint32, now uint64) {
	a := &w.Agreement
	if a.times == 0 || nonce != a.nonce {
		return
	}
	a.confirmed, a.open = now, 0
	if w.Agreed {
		return
	}
	w.Agreed, w.Reach = true, reach
	w.RoundTrip.Add(now - a.sentAt)
}

// AnswerTo returns the answer to a question.
func AnswerTo(nonce uint64) [MADSize]byte { return form(answer, nonce) }

// ParseMAD reports whether a management datagram is a question or an answer, and returns its number.
func ParseMAD(b []byte) (asks bool, nonce uint64, ok bool) {
	if len(b) != MADSize || [4]byte(b) != begins || [4]byte(b[ouiAt:]) != oui {
		return false, 0, false
	}
	kind := binary.BigEndian.Uint16(b[attributeAt:])
	return kind == question, binary.BigEndian.Uint64(b[nonceAt:]), kind == question || kind == answer
}

// ReachOf returns how far before the expected packet the sender of a question or an answer keeps packets on a
// long path.
func ReachOf(b *[MADSize]byte) uint32 { return binary.BigEndian.Uint32(b[reachAt:]) }

func form(kind uint16, nonce uint64) (b [MADSize]byte) {
	copy(b[:], begins[:])
	copy(b[ouiAt:], oui[:])
	binary.BigEndian.PutUint16(b[attributeAt:], kind)
	binary.BigEndian.PutUint64(b[nonceAt:], nonce)
	binary.BigEndian.PutUint32(b[reachAt:], LongReach)
	return b
}
