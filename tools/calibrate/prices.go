//go:build linux && (amd64 || arm64)

package calibrate

import "github.com/nicless/nicless/internal/shm"

// wordOutLineBack is a word in one direction and a line of 64 bytes, in a ring, in the other.
var wordOutLineBack = shape{
	request: func(m *memory, i, end uint64) (sum uint64) {
		for ; i < end; i++ {
			m.request.Publish(i)
			c := m.completion(i)
			await(c.tail, i)
			sum += get(c)
		}
		return sum
	},
	answer: func(m *memory, i, end uint64) (sum uint64) {
		for ; i < end; i++ {
			await(m.request, i)
			put(m.completion(i), i)
		}
		return sum
	},
}

// lineAhead is a word in each direction. Before the first word, a line of 64 bytes of a ring is written,
// which the other side reads.
var lineAhead = shape{
	request: func(m *memory, i, end uint64) (sum uint64) {
		for ; i < end; i++ {
			put(m.descriptor(i), i)
			m.request.Publish(i)
			await(m.response, i)
		}
		return sum
	},
	answer: func(m *memory, i, end uint64) (sum uint64) {
		for ; i < end; i++ {
			await(m.request, i)
			sum += get(m.descriptor(i))
			m.response.Publish(i)
		}
		return sum
	},
}

// copies is a word in each direction. Between them the other side copies bytes that only it uses.
func copies(bytes int) shape {
	return shape{
		request: func(m *memory, i, end uint64) (sum uint64) {
			for ; i < end; i++ {
				m.request.Publish(i)
				awaitCalmly(m.response, i)
			}
			return sum
		},
		answer: func(m *memory, i, end uint64) (sum uint64) {
			for ; i < end; i++ {
				awaitCalmly(m.request, i)
				copy(m.target[:bytes], m.source[:bytes])
				m.response.Publish(i)
			}
			return sum
		},
	}
}

// adding is a locked addition of each side, followed by a signal in a line that depends on the sum,
// so that the processor cannot fetch that line before it has the sum. The two sides add to one
// counter, or each side to its own; then both counters are always equal. Both kinds of exchanges
// execute the same instructions.
func adding(together bool) shape {
	step, later := uint64(1), uint64(0) // from addition to addition, and from one side's to the other's
	counter := func(m *memory, side int) []byte { return m.own[side] }
	if together {
		step, later = 2, 1
		counter = func(m *memory, _ int) []byte { return m.counter }
	}
	return shape{
		request: func(m *memory, i, end uint64) (sum uint64) {
			mine := counter(m, 0)
			for ; i < end; i++ {
				at := shm.Add(mine, 1)
				m.descriptor(at).tail.Publish(i)
				awaitCalmly(m.completion(at+later).tail, i)
			}
			return 0
		},
		answer: func(m *memory, i, end uint64) (sum uint64) {
			mine, at := counter(m, 1), m.ownSum
			if together {
				at = m.sum
			}
			for ; i < end; i++ {
				awaitCalmly(m.descriptor(at).tail, i)
				m.completion(shm.Add(mine, 1)).tail.Publish(i)
				at += step
			}
			return 0
		},
	}
}
