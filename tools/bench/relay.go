//go:build linux && (amd64 || arm64)

package bench

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/tools/quantile"
	"golang.org/x/sys/unix"
)

// relayed returns the times of n round trips of the floor of crowded cores: two sides that spin, and a
// thread in the place of the engine that sleeps until one of them signals, and copies words.
func (c *crowding) relayed(n int) (took []time.Duration, err error) {
	region, err := shm.Heap(shm.PageSize)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, region.Close()) }()
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("bench: eventfd: %w", err)
	}
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	line := func(i int) *shm.Word64 { return shm.Word64At(region.Bytes(), uint64(64*i)) }
	a, b := &relayedSide{fd, line(0), line(1)}, &relayedSide{fd, line(2), line(3)}
	ended := make(chan error, 1)
	go func() { ended <- c.roam(func() error { return relay(fd, a, b) }) }()
	took, err = c.toAndFro(n, a, b)
	return took, errors.Join(err, signalRelay(fd, stopWaker), <-ended)
}

// relay copies what one side has stored to the other side, after each signal.
func relay(fd int, a, b *relayedSide) error {
	var count [8]byte
	for {
		if _, err := unix.Read(fd, count[:]); err != nil {
			return fmt.Errorf("bench: eventfd: %w", err)
		}
		if count[4] != 0 { // stopWaker
			return nil
		}
		b.in.Publish(a.out.Observe())
		a.in.Publish(b.out.Observe())
	}
}

func signalRelay(fd int, n uint64) error {
	w := waker{fd: fd}
	return w.signal(n)
}

// A relayedSide is a side of the floor.
type relayedSide struct {
	fd      int
	out, in *shm.Word64
}

func (s *relayedSide) pass(turn uint64) error {
	s.out.Publish(turn)
	return signalRelay(s.fd, 1)
}

func (s *relayedSide) await(turn uint64) error {
	for s.in.Observe() != turn {
	}
	return nil
}

// word returns the word of a piece of memory of 8 bytes.
func word(m *nicless.MR) *shm.Word64 { return shm.Word64At(m.Bytes(), 0) }

// halfTrip returns a quantile of the times, halved, in microseconds.
func halfTrip(took []time.Duration, p float64) float64 {
	return float64(quantile.Rank(slices.Sorted(slices.Values(took)), p)) / 2 / float64(time.Microsecond)
}
