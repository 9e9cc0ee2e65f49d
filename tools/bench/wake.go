//go:build linux && (amd64 || arm64)

package bench

import (
	"encoding/binary"
	"fmt"

	"github.com/nicless/nicless/internal/shm"
	"golang.org/x/sys/unix"
)

// A waker is the floor of the first operation after a pause. It is a thread on another core
// that sleeps on an eventfd and answers in memory.
type waker struct {
	fd     int
	region *shm.Region
	word   *shm.Word64
	n      uint64
	ended  chan error
}

func newWaker(cpu int) (*waker, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("bench: eventfd: %w", err)
	}
	r, err := shm.Heap(shm.PageSize)
	if err != nil {
		return nil, err
	}
	w := &waker{fd: fd, region: r, word: shm.Word64At(r.Bytes(), 0), ended: make(chan error, 1)}
	go func() {
		err := pinForGood(cpu)
		for err == nil {
			var b [8]byte
			if _, err = unix.Read(fd, b[:]); err != nil {
				break
			}
			n := binary.NativeEndian.Uint64(b[:])
			if n >= stopWaker {
				break
			}
			w.word.Publish(w.word.Observe() + n)
		}
		w.ended <- err
	}()
	return w, nil
}

// stopWaker is the least count of the eventfd that ends the thread. wake adds only 1 for
// each call, so the count is always less when the thread has only been woken.
const stopWaker = 1 << 32

func (w *waker) signal(n uint64) error {
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], n)
	if _, err := unix.Write(w.fd, b[:]); err != nil {
		return fmt.Errorf("bench: eventfd: %w", err)
	}
	return nil
}

// wake wakes the thread and waits for its answer.
func (w *waker) wake() error {
	w.n++
	if err := w.signal(1); err != nil {
		return err
	}
	for w.word.Observe() != w.n {
		if len(w.ended) > 0 {
			return fmt.Errorf("bench: the thread to wake has ended")
		}
	}
	return nil
}

func (w *waker) close() error {
	err := w.signal(stopWaker)
	if err == nil {
		err = <-w.ended
	}
	_ = unix.Close(w.fd)
	_ = w.region.Close()
	return err
}
