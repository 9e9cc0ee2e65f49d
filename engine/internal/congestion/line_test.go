package congestion

import (
	"container/heap"
	"math/rand/v2"
	"time"

	"github.com/nicless/nicless/internal/clock"
)

// A line carries the packets of some senders, one after another, to receivers that answer each. Times are in
// packets that the line carries.
type line struct {
	rng     *rand.Rand
	now     uint64
	free    uint64  // when it has sent what is in its queue
	queue   uint64  // packets that the queue holds; what comes to a full one is lost
	delay   uint64  // from the end of the line to the receiver and back to the sender
	loss    float64 // the part of the packets that is lost on the way
	dropped int     // packets that came to a full queue
	senders []*sender
	answers answers
}

// A sender always has something to send.
type sender struct {
	window Window
	trip   *Trip
	size   uint32
	begins uint64 // when it begins

	sent, newest uint64 // number of packets sent, and of the latest that has come
	on           uint32 // packets on the way
	mark, at     uint64 // the packet that has begun the round, and when
	round        Round
	heard        uint64 // when an answer has come, or the sender has begun again because none has
	got          int
}

// An answer arrives at a time, for a packet of a sender.
type answer struct {
	at, number uint64
	of         *sender
}

type answers []answer

func (a answers) Len() int           { return len(a) }
func (a answers) Less(i, j int) bool { return a[i].at < a[j].at }
func (a answers) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }
func (a *answers) Push(x any)        { *a = append(*a, x.(answer)) }
func (a *answers) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

// unit is how long the line needs for a packet.
var unit = clock.Cycles(50 * time.Microsecond)

// mostWindow is the largest window of a sender.
const mostWindow = 8191

func newLine(queue, delay uint64, loss float64, seed uint64) *line {
	return &line{rng: rand.New(rand.NewPCG(seed, 5)), queue: queue, delay: delay, loss: loss}
}

// add adds a sender that begins at a time. If it has no trip, it measures its own.
func (l *line) add(begins uint64, trip *Trip) *sender {
	s := &sender{size: 1024, begins: begins, trip: trip}
	l.senders = append(l.senders, s)
	return s
}

// run lets the line work until a time.
func (l *line) run(end uint64) {
	for l.now < end {
		for _, s := range l.senders {
			if l.now-s.heard > 3*(l.delay+l.queue) {
				s.on, s.mark, s.heard = 0, 0, l.now
			}
			for l.now >= s.begins && s.on < s.size {
				l.send(s)
			}
		}
		next := l.now + 1
		if len(l.answers) > 0 {
			next = max(l.now, l.answers[0].at)
		}
		l.now = next
		for len(l.answers) > 0 && l.answers[0].at <= l.now {
			a := heap.Pop(&l.answers).(answer)
			a.of.take(a.number, l.now)
		}
	}
}

func (l *line) send(s *sender) {
	s.sent++
	s.on++
	if s.mark == 0 {
		s.mark, s.at, s.round = s.sent, l.now, Round{}
	}
	begins := max(l.free, l.now)
	if begins-l.now > l.queue {
		l.dropped++
		return
	}
	l.free = begins + 1
	if l.rng.Float64() >= l.loss {
		heap.Push(&l.answers, answer{l.free + l.delay, s.sent, s})
	}
}

// take takes the answer for a packet. Those before it that have not come are lost: the line keeps the order.
func (s *sender) take(number, now uint64) {
	lost := uint32(number - s.newest - 1)
	s.newest, s.heard = number, now
	s.on -= min(lost+1, s.on)
	s.got++
	s.round.Had++
	s.round.Lost += lost
	if s.mark != 0 && number >= s.mark {
		s.round.Took, s.round.Now = (now-s.at)*unit, now*unit
		s.size = s.window.End(s.round, s.trip, s.size, mostWindow)
		s.mark = 0
	}
}
