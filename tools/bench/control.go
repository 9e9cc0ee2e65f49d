//go:build linux && (amd64 || arm64)

package bench

import (
	"errors"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/internal/shm"
)

var startGroup = group{
	process: true,
	rows:    []spec{{name: "engine-start", what: "from the start of an engine process until its first client is connected", unit: "ms", most: 50}},
	open: func(s *suite) (func() ([]pairOf, error), func() error, error) {
		return func() ([]pairOf, error) {
			begin := time.Now()
			engine, client, err := s.start(false)
			if err != nil {
				return nil, err
			}
			took := time.Since(begin)
			return []pairOf{{device: sample{value: took.Seconds() * 1e3}}}, engine.with(client)()
		}, nil, nil
	},
}

var controlGroup = group{
	process: true,
	rows: []spec{
		{name: "connect", what: "a client connects to an engine process", unit: "us", most: 1000},
		{name: "qp-connect", what: "half of the time in which two queue pairs are made and connected", unit: "us", most: 200},
		{name: "register-1G", what: "1 GiB of new memory is registered", unit: "ms", most: 10,
			floor: "a memfd of the same size is made and mapped", absolute: true},
	},
	open: func(s *suite) (func() ([]pairOf, error), func() error, error) {
		engine, client, err := s.start(false)
		if err != nil {
			return nil, nil, err
		}
		return func() ([]pairOf, error) { return s.control(engine, client) }, engine.with(client), nil
	},
}

// control measures how long requests to an engine take, from request to answer.
func (s *suite) control(engine *process, c *nicless.Context) ([]pairOf, error) {
	out := make([]pairOf, 3)
	var connects, queues time.Duration
	for range s.counts.connects {
		begin := time.Now()
		client, err := nicless.Dial(engine.socket)
		connects += time.Since(begin)
		if err != nil {
			return nil, err
		}
		if err := client.Close(); err != nil {
			return nil, err
		}
	}
	pd, err := c.AllocPD()
	if err != nil {
		return nil, err
	}
	cq, err := c.CreateCQ(nicless.CQConfig{})
	if err != nil {
		return nil, err
	}
	for range s.counts.connects {
		begin := time.Now()
		a, b, err := connected(pd, nicless.QPConfig{SendCQ: cq})
		queues += time.Since(begin)
		if err != nil {
			return nil, err
		}
		if err := errors.Join(a.Close(), b.Close()); err != nil {
			return nil, err
		}
	}
	each := func(d time.Duration, n int) float64 { return d.Seconds() * 1e6 / float64(n) }
	out[0].device.value = each(connects, s.counts.connects)
	out[1].device.value = each(queues, 2*s.counts.connects)

	begin := time.Now()
	r, err := shm.Create("floor", s.counts.registered)
	out[2].floor.value = time.Since(begin).Seconds() * 1e3
	if err != nil {
		return nil, err
	}
	if err := r.Close(); err != nil {
		return nil, err
	}
	begin = time.Now()
	mr, err := pd.RegisterMemory(s.counts.registered, nicless.FullAccess)
	out[2].device.value = time.Since(begin).Seconds() * 1e3
	if err != nil {
		return nil, err
	}
	return out, errors.Join(mr.Close(), cq.Close(), pd.Close())
}
