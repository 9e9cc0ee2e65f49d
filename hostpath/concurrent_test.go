package hostpath

import (
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// A poster, a poller and a device, each on its own goroutine, share only the words that are
// meant to be shared. Run this test under the race detector.
func TestConcurrent(t *testing.T) {
	const total = 5000
	b := newBench(t, 16, nil)
	var wg sync.WaitGroup
	wg.Add(2)
	stop := make(chan struct{})
	go func() { // the device
		defer wg.Done()
		for {
			select {
			case <-stop:
				return
			default:
			}
			if b.dev.step() == 0 {
				runtime.Gosched()
			}
		}
	}()
	go func() { // the poster
		defer wg.Done()
		for id := uint64(1); id <= total; {
			wr := SendWR{ID: id, Op: OpWrite, Data: make([]byte, id%90)}
			if id%4 == 0 || id == total {
				wr.Flags = Signaled
			}
			err := b.sq.Post(&wr)
			switch {
			case err == nil:
				id++
				if id%3 == 0 {
					b.sq.Ring()
				}
			case errors.Is(err, ErrFull):
				b.sq.Ring()
				runtime.Gosched()
			default:
				panic(err)
			}
		}
		b.sq.Ring()
	}()
	last := uint64(0)
	for last < total { // the poller
		var c [4]Completion
		n := b.cq.Poll(c[:])
		for i := range n {
			require.Equal(t, last+4-last%4, c[i].ID)
			last = c[i].ID
		}
		if n == 0 {
			runtime.Gosched()
		}
	}
	close(stop)
	wg.Wait()
	require.Equal(t, 16, b.sq.Free())
}

// Several pollers may give back entries of one SRQ at the same time.
func TestConcurrentSRQ(t *testing.T) {
	const total = 4000
	q, d := newSRQ(t, 16)
	given := make(chan uint16, 16)
	var wg sync.WaitGroup
	for range 3 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range given {
				if _, ok := q.take(i); !ok {
					panic("not with the device")
				}
				q.give(i)
			}
		}()
	}
	for id := 0; id < total; {
		if err := q.PostRecv(&RecvWR{ID: uint64(id)}); err != nil {
			require.ErrorIs(t, err, ErrFull)
			runtime.Gosched()
			continue
		}
		id++
		q.Ring()
		i, ok := d.next()
		require.True(t, ok)
		given <- i
	}
	close(given)
	wg.Wait()
	q.collect()
	free := 0
	for i := q.head; i != q.tail; i = q.next[i] {
		free++
	}
	require.Equal(t, 15, free, "every entry came back, once")
}
