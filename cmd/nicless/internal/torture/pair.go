package torture

import (
	"fmt"
	"time"
)

// A phase is how far an end of a connection is.
type phase uint8

const (
	starting   phase = iota // nothing is known of its queue pairs
	waiting                 // ready for its peer
	connecting              // told with whom
	connected               // has done so
	inTraffic               // told to go
	quiet                   // told to stop, and has
	closed
)

// noticeTime is how long a client may take to notice that the engine is gone,
// at a time when all others do so too.
const noticeTime = 5 * time.Second

// A pair is two correct clients and the connection between them.
type pair struct {
	ends   [2]end
	epoch  int // number of the connection
	broken int // the highest of those that an end may find broken
}

type end struct {
	p     *process
	phase phase
	seq   int     // of ready
	ready *Report // as last said, perhaps of a connection that is over
}

func (r *run) each(ph phase) bool {
	for i := range r.pairs {
		for j := range 2 {
			if r.pairs[i].ends[j].phase != ph {
				return false
			}
		}
	}
	return true
}

func (r *run) startClient(i, j int) error {
	p, err := r.start(Spec{Role: roleClient, Seed: r.cfg.Seed, Pair: i, End: j}, fmt.Sprintf("client %d of pair %d", j, i))
	r.pairs[i].ends[j] = end{p: p}
	return err
}

// killClient kills an end of a pair and starts another. The other end has to
// find out by itself, unless it is not at work yet.
func (r *run) killClient(i, j int) error {
	pr := &r.pairs[i]
	pr.broken = pr.epoch
	pr.ends[j].p.kill()
	r.result.Killed.Correct++
	r.unready(&pr.ends[1-j])
	return r.startClient(i, j)
}

// unready has an end begin again that was told about a peer which is gone now.
func (r *run) unready(e *end) {
	if e.phase == connecting || e.phase == connected {
		e.phase = starting
		e.p.tell(Order{Do: doAgain, Ready: e.seq})
	}
}

// client handles a report of a correct client.
func (r *run) client(p *process, rep Report) error {
	pr := &r.pairs[p.spec.Pair]
	e, other := &pr.ends[p.spec.End], &pr.ends[1-p.spec.End]
	if e.p != p {
		return nil // it is dead
	}
	switch rep.Is {
	case isReady:
		e.phase, e.seq, e.ready = waiting, rep.Ready, &rep
		r.unready(other)
		r.connect(pr)
	case isConnected:
		if e.phase != connecting || rep.Ready != e.seq {
			return nil
		}
		e.phase = connected
		if other.phase == connected {
			for j := range 2 {
				pr.ends[j].phase = inTraffic
				pr.ends[j].p.tell(Order{Do: doGo, Ready: pr.ends[j].seq})
			}
			r.result.Connections++
		}
	case isPeerLost:
		if rep.Epoch > pr.broken {
			return r.fault("%s lost its peer, which lives (connection %d): %s", p.name, rep.Epoch, rep.Text)
		}
		e.phase = starting
	case isGone:
		at := time.Unix(0, rep.At)
		late := at.Sub(r.endedAt) - p.stops.during(r.endedAt, at)
		if p.gones++; p.gones > r.ends()-p.born {
			return r.fault("%s was told that the engine is gone, which runs", p.name)
		}
		if r.result.Notice = max(r.result.Notice, late); late > noticeTime {
			return r.fault("%s was told %v late that the engine is gone", p.name, late)
		}
		e.phase = starting
	case isQuiet:
		e.phase = quiet
	case isClosed:
		e.phase = closed
	}
	return nil
}

// connect connects the ends of a pair, once both are ready for the same engine.
func (r *run) connect(pr *pair) {
	a, b := &pr.ends[0], &pr.ends[1]
	if a.phase != waiting || b.phase != waiting || a.ready.Lanes[0].QP.Device != b.ready.Lanes[0].QP.Device {
		return
	}
	pr.epoch++
	if r.engine.ends { // it has been told to stop, and flushes this one, too
		pr.broken = pr.epoch
	}
	for j := range 2 {
		e := &pr.ends[j]
		e.phase = connecting
		e.p.tell(Order{Do: doConnect, Ready: e.seq, Epoch: pr.epoch, Peer: pr.ends[1-j].ready.Lanes})
	}
}
