//go:build linux && (amd64 || arm64)

package engine

import (
	"runtime"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// mostSeeds is in how many seeds a program that relies on an order has to fail.
const mostSeeds = 100

// messages is how many messages it has with each seed.
const messages = 4

// runs lets a program run on an engine with a rule of order, for each seed, until it fails, and returns the
// seed; -1: never.
func runs(t *testing.T, n int, program func(p, q *end, from, to *key) (right bool)) int {
	for seed := range n {
		cfg := Config{Faults: &fault.Rules{Seed: fault.Number(seed), Rules: []fault.Rule{{Order: fault.Weak}}}}
		r, p, q := duo(t, cfg)
		from := p.h.full(4096, 1)
		to := q.h.key(4096, control.AccessAll&^control.AccessZeroBased)
		stop := r.start()
		right := true
		for range messages {
			right = right && program(p, q, from, to)
		}
		stop()
		if !right {
			return seed
		}
	}
	return -1
}

// A program that takes the last bytes of a payload for a sign that all are there fails within 100 seeds.
func TestPollingTheLastByteFails(t *testing.T) {
	if shm.RaceEnabled {
		t.Skip("the program has the race that the test is about")
	}
	seed := runs(t, mostSeeds, func(p, q *end, from, to *key) bool {
		clear(to.mem)
		begun, right := make(chan struct{}), make(chan bool)
		go func() {
			end := shm.BE32At(to.mem, 4092)
			close(begun)
			for end.Observe() == 0 {
				runtime.Gosched()
			}
			right <- string(to.mem) == string(from.mem)
		}()
		<-begun
		p.post(ctrl(wqe.OpRDMAWrite), to.raddr(0), from.data(0, 4096))
		ok := <-right
		require.Equal(t, cqe.StatusSuccess, p.scq.await().Status)
		require.Equal(t, from.mem, to.mem)
		return ok
	})
	require.NotEqual(t, -1, seed, "the program was right with each seed")
	t.Logf("fails with seed %d", seed)
}

// A program that polls the completion is right with each seed: the requester that of its WRITE, and the
// responder that of a SEND behind it.
func TestPollingTheCompletionIsRight(t *testing.T) {
	require.Equal(t, -1, runs(t, mostSeeds, func(p, q *end, from, to *key) bool {
		q.recv()
		p.write(ctrl(wqe.OpRDMAWrite), to.raddr(0), from.data(0, 4096))
		p.post(ctrl(wqe.OpSend))
		require.Equal(t, cqe.StatusSuccess, q.rcq.await().Status)
		right := string(to.mem) == string(from.mem)
		clear(to.mem)
		p.post(ctrl(wqe.OpRDMAWrite), to.raddr(0), from.data(0, 4096))
		for range 3 {
			require.Equal(t, cqe.StatusSuccess, p.scq.await().Status)
		}
		return right && string(to.mem) == string(from.mem)
	}))
}
