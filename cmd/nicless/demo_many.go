//go:build linux && (amd64 || arm64)

package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/nicless/nicless"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/tools/bench"
)

const (
	demoSize  = 64  // bytes of an operation
	demoSlots = 256 // number of payload slots; operation i uses slot i mod demoSlots
	demoBatch = 256 // operations in a batch, when there is no time left for single operations

	// patience is how many polls in a row may find nothing before the program sleeps. They
	// take some microseconds. A demonstration must not keep cores busy that others need.
	patience = 100

	// budget is the time for making operations of one kind one by one. On a busy machine
	// it may not be enough; the other operations are then made in batches.
	budget = time.Second

	// warmUp and warmUpTime limit the operations that are made first and not counted.
	warmUp     = 1000
	warmUpTime = 50 * time.Millisecond
)

// A tally holds the results of the operations of one kind.
type tally struct {
	op      nicless.Op
	latency *hdrhistogram.Histogram // latencies in ns of the operations that were made one by one
	batched uint64                  // number of operations made in batches
	took    time.Duration
}

// showMany makes count operations of each kind and prints their latencies.
func showMany(ctx context.Context, w *printer, count int) error {
	var tallies []*tally
	w.text("")
	w.text("%s WRITES, READS AND SENDS of %d bytes each; every payload is compared.", thousands(uint64(count)), demoSize)
	w.text("Each kind is timed one operation at a time for up to %v. The rest is made %d at a time and is not timed.", budget, demoBatch)
	for _, op := range []nicless.Op{nicless.Write, nicless.Read, nicless.Send} {
		cfg := bench.PairConfig{Op: op, Size: demoSize, Slots: demoSlots, Depth: demoBatch, Batch: demoBatch,
			Patience: patience}
		t := &tally{op: op, latency: hdrhistogram.New(1, int64(time.Minute), 3)}
		err := withPair(cfg, func(p *bench.Pair) error { return t.measure(ctx, p, uint64(count)) })
		if err != nil {
			return fmt.Errorf("demo: %w", err)
		}
		tallies = append(tallies, t)
	}
	printTallies(w, tallies)
	return w.err
}

// measure makes the operations of the warm-up, which are not counted, and then n operations.
// It makes them one by one until the budget is spent, and the rest in batches.
func (t *tally) measure(ctx context.Context, p *bench.Pair, n uint64) error {
	fill := rand.NewChaCha8([32]byte{byte(t.op)})
	_, _ = fill.Read(p.From.Bytes()) // never fails
	i := uint64(0)
	for start := time.Now(); i < min(n, warmUp) && time.Since(start) < warmUpTime; i++ {
		if _, err := t.one(ctx, p, i); err != nil {
			return err
		}
	}
	n += i
	start := time.Now()
	end := clock.Now() + clock.Cycles(budget)
	for ; i < n; i++ {
		took, err := t.one(ctx, p, i)
		if err != nil {
			return err
		}
		if err := t.latency.RecordValue(took.Nanoseconds()); err != nil {
			return err
		}
		if int64(clock.Now()-end) > 0 {
			i++
			break
		}
	}
	for i < n {
		batch := min(n-i, demoBatch)
		if err := t.many(ctx, p, i, batch); err != nil {
			return err
		}
		i += batch
		t.batched += batch
	}
	t.took = time.Since(start)
	return p.CompareFirst(i)
}

// one makes operation i with a payload that no other operation has, compares the payload that
// arrived, and returns the latency.
func (t *tally) one(ctx context.Context, p *bench.Pair, i uint64) (time.Duration, error) {
	payload := p.Source(i)
	binary.LittleEndian.PutUint64(payload, i)
	start := clock.Now()
	if err := p.Post(i, 1); err != nil {
		return 0, err
	}
	if err := p.Await(ctx, i+1); err != nil {
		return 0, err
	}
	took := clock.Now() - start
	return clock.Duration(took), t.compare(p, i)
}

func (t *tally) many(ctx context.Context, p *bench.Pair, i, n uint64) error {
	for k := i; k < i+n; k++ {
		binary.LittleEndian.PutUint64(p.Source(k), k)
	}
	if err := p.Post(i, int(n)); err != nil {
		return err
	}
	if err := p.Await(ctx, i+n); err != nil {
		return err
	}
	for k := i; k < i+n; k++ {
		if err := t.compare(p, k); err != nil {
			return err
		}
	}
	return nil
}

func (t *tally) compare(p *bench.Pair, i uint64) error {
	if !bytes.Equal(p.Target(i), p.Source(i)) {
		return fmt.Errorf("%v %d: % x arrived, % x was expected", t.op, i, p.Target(i), p.Source(i))
	}
	return nil
}

// done returns how many operations were made.
func (t *tally) done() uint64 { return uint64(t.latency.TotalCount()) + t.batched }
