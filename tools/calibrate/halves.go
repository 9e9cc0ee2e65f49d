//go:build linux && (amd64 || arm64)

package calibrate

import (
	"encoding/binary"

	"github.com/nicless/nicless/internal/clock"
)

// The exchanges of these shapes have two halves. In the first half the first thread writes some
// lines, and the other thread answers without reading them, so the half ends when all lines are
// written. In the second half the other thread reads them. It finds the first of them by an index
// that comes with the signal: otherwise the processor would predict that the signal has come, and
// fetch the lines before. Both halves contain the same signals, whatever the number of lines is,
// so a difference between two numbers of lines is their cost alone.

// block is n consecutive lines.
func block(n uint64) shape {
	return halves(
		func(m *memory, i uint64) (head uint64) {
			head = i * 128 % dataLines
			for k := range n {
				put(m.data(head+k), i)
			}
			return head
		},
		func(m *memory, head uint64) (sum uint64) {
			for k := range n {
				sum += get(m.data(head + k))
			}
			return sum
		})
}

// chain is n lines far apart. Each has the index of the next one.
func chain(n uint64) shape {
	scattered := func(i uint64) uint64 { return i * 2654435761 >> 7 % dataLines }
	return halves(
		func(m *memory, i uint64) (head uint64) {
			head = scattered(i * 7)
			at := head
			for k := range n {
				next := scattered(i*7 + k + 1)
				binary.LittleEndian.PutUint64(m.data(at).block[0:8], next)
				at = next
			}
			return head
		},
		func(m *memory, head uint64) uint64 {
			at := head
			for range n {
				at = binary.LittleEndian.Uint64(m.data(at).block[0:8])
			}
			return at
		})
}

// halves returns the shape of exchanges for which the first thread calls write and the second one
// read.
func halves(write func(m *memory, i uint64) (head uint64),
	read func(m *memory, head uint64) (sum uint64)) shape {
	return shape{
		halves: func(m *memory, i, end uint64) (first, second uint64) {
			for ; i < end; i++ {
				start := clock.Now()
				head := write(m, i)
				m.request.Publish(2 * i)
				awaitCalmly(m.response, 2*i)
				middle := clock.Now()
				m.head.Publish(head)
				m.request.Publish(2*i + 1)
				awaitCalmly(m.response, 2*i+1)
				first += middle - start
				second += clock.Now() - middle
			}
			return first, second
		},
		answer: func(m *memory, i, end uint64) (sum uint64) {
			for ; i < end; i++ {
				awaitCalmly(m.request, 2*i)
				m.response.Publish(2 * i)
				awaitCalmly(m.request, 2*i+1)
				sum += read(m, m.head.Observe())
				m.response.Publish(2*i + 1)
			}
			return sum
		},
	}
}
