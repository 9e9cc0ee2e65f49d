//go:build linux && (amd64 || arm64)

package bench

import (
	"errors"
	"time"

	"github.com/nicless/nicless"
)

// A crowd is an engine with many clients whose many connected queue pairs are idle, and with
// one pair of queue pairs that is used. The engine's process is stopped except while it is
// measured.
type crowd struct {
	engine *process
	pair   *Pair
	next   uint64 // number of the next operation of pair

	empty, joined, full usage // memory with one client, with all clients, with all queue pairs
	queues              int
}

// crowded returns the crowd of the suite, and makes it at the first call.
func (s *suite) crowded() (*crowd, error) {
	if s.crowd != nil {
		return s.crowd, nil
	}
	engine, first, err := s.start(true)
	if err != nil {
		return nil, err
	}
	s.later(engine.close)
	c := &crowd{engine: engine, empty: engine.memory()}
	clients := []*nicless.Context{first}
	for len(clients) < s.counts.clients {
		client, err := nicless.Dial(engine.socket)
		if err != nil {
			return nil, err
		}
		clients = append(clients, client)
	}
	s.later(func() error {
		err := engine.resume() // the engine must answer when a client is closed
		for _, client := range clients {
			err = errors.Join(err, client.Close())
		}
		return err
	})
	c.joined = engine.memory()
	for _, client := range clients {
		n := s.counts.queues / len(clients)
		if err := idleQueues(client, n); err != nil {
			return nil, err
		}
		c.queues += n
	}
	c.full = engine.memory()
	c.pair, err = s.pinger(first)
	if err != nil {
		return nil, err
	}
	s.crowd = c
	return c, engine.pause()
}

// idleQueues makes n queue pairs and connects them in pairs.
func idleQueues(c *nicless.Context, n int) error {
	pd, err := c.AllocPD()
	if err != nil {
		return err
	}
	cq, err := c.CreateCQ(nicless.CQConfig{Entries: 64, PollOnly: true})
	if err != nil {
		return err
	}
	for range n / 2 {
		if _, _, err := connected(pd,
			nicless.QPConfig{SendCQ: cq, MaxSendWR: 16, MaxRecvWR: 16}); err != nil {
			return err
		}
	}
	return nil
}

// connected returns two queue pairs that are connected with each other.
func connected(pd *nicless.PD, cfg nicless.QPConfig) (a, b *nicless.QP, err error) {
	if a, err = pd.CreateQP(cfg); err != nil {
		return nil, nil, err
	}
	if b, err = pd.CreateQP(cfg); err != nil {
		return nil, nil, err
	}
	return a, b, nicless.Pair(a, b, nicless.Connection{})
}

// pinger returns a pair for 8-byte WRITEs, one at a time.
func (s *suite) pinger(c *nicless.Context) (*Pair, error) {
	return NewPair(c,
		PairConfig{Op: nicless.Write, Size: 8, Slots: 1, Depth: 1, Batch: 1, Patience: patience})
}

// pingTime is about the most time that the operations of a ping take.
const pingTime = 200 * time.Millisecond

// ping returns the mean latency of up to n operations of an engine's pair. The first
// operation has the number *i; ping advances *i.
func (s *suite) ping(p *Pair, engine *process, i *uint64, n int) (sample, error) {
	m := &measurement{ctx: s.ctx}
	trips := func(n int) (err error) {
		err = m.trips(p, *i, *i+uint64(n))
		*i += uint64(n)
		return err
	}
	few := min(n, 1000)
	begin := time.Now()
	if err := trips(few); err != nil { // warm-up
		return sample{}, err
	}
	n = max(few, min(n, int(pingTime/(1+time.Since(begin)/time.Duration(few)))))
	var err error
	t := timed(func() { err = trips(n) }, engine.pid())
	return t.nanoseconds(n), errors.Join(err, p.Compare())
}

var crowdGroup = group{
	process: true,
	busy:    true,
	rows: []spec{{
		name: "crowd-write-8", what: "8-byte WRITE, post to completion, on one queue pair beside 10,000 connected idle ones of 100 clients",
		unit: "ns", floor: "the same in an engine with that queue pair alone", most: 1.2,
	}},
	open: func(s *suite) (func() ([]pairOf, error), func() error, error) {
		alone, client, err := s.start(true)
		if err != nil {
			return nil, nil, err
		}
		end := alone.with(client)
		pair, err := s.pinger(client)
		if err != nil {
			return nil, nil, errors.Join(err, end())
		}
		if err := alone.pause(); err != nil {
			return nil, nil, errors.Join(err, end())
		}
		many, err := s.crowded()
		if err != nil {
			return nil, nil, errors.Join(err, end())
		}
		next := uint64(0)
		take := func() ([]pairOf, error) {
			var p pairOf
			err := alone.during(func() (err error) {
				p.floor, err = s.ping(pair, alone, &next, s.counts.latency)
				return err
			})
			if err != nil {
				return nil, err
			}
			err = many.engine.during(func() (err error) {
				p.device, err = s.ping(many.pair, many.engine, &many.next, s.counts.latency)
				return err
			})
			return []pairOf{p}, err
		}
		return take, end, nil
	},
}

var memoryGroup = group{
	process: true,
	once:    true,
	rows: []spec{
		{name: "memory-engine", what: "resident memory of an engine process with one client and no queue", unit: "MiB", most: 32},
		{name: "memory-qp", what: "anonymous memory of the engine process for each idle queue pair, of 10,000", unit: "B", most: 2048},
	},
	open: func(s *suite) (func() ([]pairOf, error), func() error, error) {
		c, err := s.crowded()
		if err != nil {
			return nil, nil, err
		}
		return func() ([]pairOf, error) {
			return []pairOf{
				{device: sample{value: float64(c.empty.resident) / (1 << 20)}},
				{device: sample{value: float64(c.full.anonymous-c.joined.anonymous) / float64(c.queues)}},
			}, nil
		}, nil, nil
	},
}
