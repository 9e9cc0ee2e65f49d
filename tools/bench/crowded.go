//go:build linux && (amd64 || arm64)

package bench

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/nicless/nicless"
)

// The rows of crowded cores: the engine, in a process of its own, and the posters run where the kernel puts
// them, on two cores. Nobody is pinned to one core.

// crowdedThreads is how many threads of Go run at a time in these rows, at least: two spin, and the kernel,
// not the Go runtime, decides who runs.
const crowdedThreads = 4

// crowdedPairs is how many round trips a run of a row has for each operation of a run of latency. Round
// trips take a hundred times as long here.
const crowdedPairs = 10

var crowdedGroup = group{
	process: true,
	rows: []spec{
		{name: "crowded-write", what: "8-byte WRITEs to and fro between two threads that spin on their memory, beside an engine process, on two cores; median of half a round trip",
			unit: "us", floor: crowdedFloor, most: 1.5},
		{name: "crowded-write-p99", what: "the same, p99", unit: "us", floor: "the same, p99"},
		{name: "crowded-send", what: "the same with SENDs, and threads that spin on their completion queues",
			unit: "us", floor: crowdedFloor, most: 1.5},
		{name: "crowded-send-p99", what: "the same, p99", unit: "us", floor: "the same, p99"},
		{name: "crowded-rate", what: "8-byte WRITEs of one thread, 64 in flight, all signaled, a doorbell for each, beside an engine process, on two cores",
			unit: "Mops", floor: "the same with poster and engine pinned to a core each", least: 0.8},
	},
	open: func(s *suite) (func() ([]pairOf, error), func() error, error) {
		c := &crowding{suite: s}
		threads := runtime.GOMAXPROCS(max(crowdedThreads, runtime.GOMAXPROCS(0)))
		return c.take, func() error { runtime.GOMAXPROCS(threads); return nil }, nil
	},
}

const crowdedFloor = "two threads that spin and one that sleeps on an eventfd: who has the turn stores and signals, and the sleeper copies the store to the other; median of half a round trip"

// crowding measures the rows. Each sample has an engine of its own, because an engine remembers how crowded
// its cores were.
type crowding struct{ *suite }

func (c *crowding) take() ([]pairOf, error) {
	n := max(c.counts.latency/crowdedPairs, 10)
	floor, err := c.relayed(n)
	if err != nil {
		return nil, err
	}
	out := make([]pairOf, 5)
	for i, op := range []nicless.Op{nicless.Write, nicless.Send} {
		trips, err := c.trips(op, n)
		if err != nil {
			return nil, err
		}
		for j, p := range []float64{0.5, 0.99} {
			out[2*i+j].floor.value = halfTrip(floor, p)
			out[2*i+j].device.value = halfTrip(trips, p)
		}
	}
	out[4], err = c.rate()
	return out, err
}

// trips returns the times of n round trips.
func (c *crowding) trips(op nicless.Op, n int) (took []time.Duration, err error) {
	engine, client, err := c.startOn([]int{c.ClientCPU, c.EngineCPU}, false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, engine.close()) }()
	other, err := nicless.Dial(engine.socket)
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	defer func() { err = errors.Join(err, client.Close(), other.Close()) }()
	a, err := newSeat(client, op)
	if err != nil {
		return nil, err
	}
	b, err := newSeat(other, op)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(nicless.Pair(a.qp, b.qp, nicless.Connection{}), a.aim(b), b.aim(a)); err != nil {
		return nil, err
	}
	return c.toAndFro(n, a, b)
}

// A side is one of two threads that have the turn one after the other. Its functions never sleep.
type side interface {
	pass(turn uint64) error  // gives the turn to the other side
	await(turn uint64) error // spins until this side has the turn
}

// toAndFro passes the turn to and fro between two threads, n times, and returns the times of the round
// trips.
func (c *crowding) toAndFro(n int, a, b side) (took []time.Duration, err error) {
	answered := make(chan error, 1)
	go func() {
		answered <- c.roam(func() (err error) {
			for turn := uint64(1); turn <= uint64(n) && err == nil; turn++ {
				if err = b.await(turn); err == nil {
					err = b.pass(turn)
				}
			}
			return err
		})
	}()
	posted := make(chan error, 1)
	go func() {
		posted <- c.roam(func() (err error) {
			for turn := uint64(1); turn <= uint64(n) && err == nil; turn++ {
				began := time.Now()
				if err = a.pass(turn); err == nil {
					err = a.await(turn)
				}
				took = append(took, time.Since(began))
			}
			return err
		})
	}()
	return took, errors.Join(<-posted, <-answered)
}

// roam calls f on a thread that may run on both cores. The caller's goroutine ends afterwards, and the thread
// with it.
func (c *crowding) roam(f func() error) error {
	if err := roamOn(c.ClientCPU, c.EngineCPU); err != nil {
		return err
	}
	return f()
}

// rate measures the rate of one poster, and as its floor the same with a core for each.
func (c *crowding) rate() (p pairOf, err error) {
	m := &measurement{Config: Config{Metric: Rate, Op: nicless.Write, Batch: 1, Depth: 64,
		Iters: c.counts.rate, ClientCPU: c.ClientCPU, EngineCPU: c.EngineCPU}, ctx: c.ctx}
	if err := m.Complete(); err != nil {
		return p, err
	}
	var pinned pairOf
	if err := m.device(&pinned); err != nil {
		return p, err
	}
	p.floor = pinned.device
	engine, client, err := c.startOn([]int{c.ClientCPU, c.EngineCPU}, false)
	if err != nil {
		return p, err
	}
	if err := client.Close(); err != nil {
		return p, errors.Join(err, engine.close())
	}
	m.Socket = engine.socket
	done := make(chan error, 1)
	go func() { done <- c.roam(func() error { return m.device(&p) }) }()
	err = errors.Join(<-done, engine.close())
	p.device.lost = 0 // it is measured how little they wait for cores
	return p, err
}

// A seat is a side with a queue pair of its own context.
type seat struct {
	op           nicless.Op
	qp           *nicless.QP
	sends, recvs *nicless.CQ
	from, to     *nicless.MR
	wr           nicless.SendWR
	recv         nicless.RecvWR
	buf          [4]nicless.Completion
}

const seatDepth = 16

func newSeat(c *nicless.Context, op nicless.Op) (*seat, error) {
	pd, err := c.AllocPD()
	if err != nil {
		return nil, err
	}
	s := &seat{op: op}
	for _, m := range []**nicless.MR{&s.from, &s.to} {
		*m, err = pd.RegisterMemory(8, nicless.FullAccess)
		if err != nil {
			return nil, err
		}
	}
	for _, q := range []**nicless.CQ{&s.sends, &s.recvs} {
		*q, err = c.CreateCQ(nicless.CQConfig{Entries: 2 * seatDepth, PollOnly: true})
		if err != nil {
			return nil, err
		}
	}
	s.qp, err = pd.CreateQP(nicless.QPConfig{SendCQ: s.sends, RecvCQ: s.recvs,
		MaxSendWR: seatDepth, MaxRecvWR: seatDepth})
	return s, err
}

// aim makes the work requests, and posts receives, before the first turn.
func (s *seat) aim(peer *seat) error {
	s.wr = nicless.SendWR{Op: s.op, Flags: nicless.Signaled, SGE: []nicless.SGE{s.from.SGE(0, 8)}}
	if s.op == nicless.Write {
		s.wr.RemoteAddr, s.wr.RKey = peer.to.Addr(), peer.to.RKey()
		return nil
	}
	s.recv = nicless.RecvWR{SGE: []nicless.SGE{s.to.SGE(0, 8)}}
	for range seatDepth / 2 {
		if err := s.qp.PostRecv(&s.recv); err != nil {
			return err
		}
	}
	return nil
}

func (s *seat) pass(turn uint64) error {
	word(s.from).Publish(turn)
	err := s.qp.PostSend(&s.wr)
	for err == nil {
		var n int
		if n, err = s.sends.Poll(s.buf[:]); n > 0 {
			return errors.Join(err, s.buf[0].Err())
		}
	}
	return err
}

func (s *seat) await(turn uint64) error {
	if s.op == nicless.Write {
		for word(s.to).Observe() != turn {
		}
		return nil
	}
	for {
		n, err := s.recvs.Poll(s.buf[:1])
		if err != nil {
			return err
		}
		if n == 0 {
			continue
		}
		if got := word(s.to).Observe(); got != turn || s.buf[0].Err() != nil {
			return errors.Join(fmt.Errorf("bench: turn %d arrived; %d was sent", got, turn), s.buf[0].Err())
		}
		return s.qp.PostRecv(&s.recv)
	}
}
