//go:build linux && (amd64 || arm64)

package torture

import (
	"fmt"
	"time"

	"github.com/nicless/nicless/internal/verdict"
)

// A phase is the state of one end of a connection.
type phase uint8

const (
	starting   phase = iota // the supervisor does not know the queue pairs of this end yet
	waiting                 // this end is ready for the other end
	connecting              // this end has received the queue pairs of the other end
	connected               // this end has connected its queue pairs
	inTraffic               // this end has the order to go
	quiet                   // this end had the order to stop, and has stopped
	closed                  // this end had the order to close, and has closed everything
)

// noticeTime is how long a client may take to notice that the engine is gone. All clients notice
// the end of the engine at the same time, and compete for the cores.
const noticeTime = 5 * time.Second

// A pair is two correct clients and the connection between them.
type pair struct {
	ends   [2]end
	epoch  int // number of the present connection
	broken int // number of the last connection that may fail: an end was killed, or the engine ended
}

type end struct {
	p     *process
	phase phase
	seq   int     // number of the last ready report of the client
	ready *Report // last ready report of the client, perhaps of an earlier connection
}

// allIn reports whether all clients are in phase ph.
func (r *run) allIn(ph phase) bool {
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
	p, err := r.start(Spec{Role: roleClient, Seed: r.cfg.Seed, Pair: i, End: j},
		fmt.Sprintf("client %d of pair %d", j, i))
	r.pairs[i].ends[j] = end{p: p}
	return err
}

// killClient kills an end of a pair and starts another process in its place. If the other end
// moves data already, the other end must notice by itself that its peer is gone. Otherwise the
// other end gets an order.
func (r *run) killClient(i, j int) error {
	pr := &r.pairs[i]
	pr.broken = pr.epoch
	pr.ends[j].p.kill()
	r.result.Killed.Correct++
	r.restartHandshake(&pr.ends[1-j])
	return r.startClient(i, j)
}

// restartHandshake makes an end start again if it has received a peer that is now gone.
func (r *run) restartHandshake(e *end) {
	if e.phase == connecting || e.phase == connected {
		e.phase = starting
		e.p.send(Order{Do: doAgain, Ready: e.seq})
	}
}

// client handles a report of a correct client.
func (r *run) client(p *process, rep Report) error {
	pr := &r.pairs[p.spec.Pair]
	e, other := &pr.ends[p.spec.End], &pr.ends[1-p.spec.End]
	if e.p != p {
		return nil // the report is from a process that was replaced
	}
	switch rep.Is {
	case isReady:
		e.phase, e.seq, e.ready = waiting, rep.Ready, &rep
		r.restartHandshake(other)
		r.connect(pr)
	case isConnected:
		if e.phase != connecting || rep.Ready != e.seq {
			return nil
		}
		e.phase = connected
		if other.phase == connected {
			for j := range 2 {
				pr.ends[j].phase = inTraffic
				pr.ends[j].p.send(Order{Do: doGo, Ready: pr.ends[j].seq})
			}
			r.result.Connections++
		}
	case isPeerLost:
		if rep.Epoch > pr.broken {
			return r.broken(p.name, "a connection, as long as the peer lives", "it lost its peer, which is alive (connection %d): %s", rep.Epoch, rep.Text)
		}
		e.phase = starting
	case isGone:
		at := time.Duration(rep.At)
		late := at - r.endedAt - p.stops.during(r.endedAt, at)
		p.goneReports++
		if p.goneReports > r.enginesEnded()-p.enginesBefore {
			return r.broken(p.name, "the engine is gone only if it has ended", "it was told that the engine is gone, but the engine runs")
		}
		r.result.Notice = max(r.result.Notice, late)
		if late > noticeTime {
			e := r.witness.Between(r.endMark, nil, []int{p.cmd.Process.Pid})
			e.Stopped = p.stops.during(r.endedAt, at)
			f := verdict.Late(verdict.NoAnswer, e, fmt.Sprintf("notice of the engine's end within %v", noticeTime), "that took %v", late)
			f.Who = p.name
			return r.fault(f)
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
	if a.phase != waiting || b.phase != waiting || a.ready.Flows[0].QP.Device != b.ready.Flows[0].QP.Device {
		return
	}
	pr.epoch++
	if r.engine.ending { // the engine has the order to stop, and would flush this connection too
		pr.broken = pr.epoch
	}
	for j := range 2 {
		e := &pr.ends[j]
		e.phase = connecting
		e.p.send(Order{Do: doConnect, Ready: e.seq, Epoch: pr.epoch, Peer: pr.ends[1-j].ready.Flows})
	}
}
