//go:build linux && (amd64 || arm64)

package calibrate

import (
	"encoding/binary"
	"strconv"
)

// A shape is a pair of loops that exchange lines: the first thread requests, the second one answers.
// Both loops run for the exchanges i to end-1. They return the sum of the words that they read,
// so that the compiler keeps the reads.
type shape struct {
	request, answer func(m *memory, i, end uint64) (sum uint64)

	// halves replaces request in shapes whose exchanges have two halves. It returns how long the
	// halves took, in cycles of package clock.
	halves func(m *memory, i, end uint64) (first, second uint64)
}

// sameLine is one line that both sides write.
var sameLine = shape{
	request: func(m *memory, i, end uint64) (sum uint64) {
		for ; i < end; i++ {
			m.shared.Publish(2 * i)
			await(m.shared, 2*i+1)
		}
		return 0
	},
	answer: func(m *memory, i, end uint64) (sum uint64) {
		for ; i < end; i++ {
			await(m.shared, 2*i)
			m.shared.Publish(2*i + 1)
		}
		return 0
	},
}

// eachWay is one line per direction.
var eachWay = shape{
	request: func(m *memory, i, end uint64) (sum uint64) {
		for ; i < end; i++ {
			m.request.Publish(i)
			await(m.response, i)
		}
		return 0
	},
	answer: func(m *memory, i, end uint64) (sum uint64) {
		for ; i < end; i++ {
			await(m.request, i)
			m.response.Publish(i)
		}
		return 0
	},
}

// twoLines is two lines per direction: 64 bytes and a word.
var twoLines = shape{
	request: func(m *memory, i, end uint64) (sum uint64) {
		d, c := m.descriptor(0), m.completion(0)
		for ; i < end; i++ {
			put(d, i)
			m.request.Publish(i)
			await(m.response, i)
			sum += get(c)
		}
		return sum
	},
	answer: func(m *memory, i, end uint64) (sum uint64) {
		d, c := m.descriptor(0), m.completion(0)
		for ; i < end; i++ {
			await(m.request, i)
			sum += get(d)
			put(c, i)
			m.response.Publish(i)
		}
		return sum
	},
}

// pollWQE is a descriptor that the other side polls, and a completion.
var pollWQE = shape{
	request: func(m *memory, i, end uint64) (sum uint64) {
		for ; i < end; i++ {
			put(m.descriptor(i), i)
			c := m.completion(i)
			await(c.tail, i)
			sum += get(c)
		}
		return sum
	},
	answer: func(m *memory, i, end uint64) (sum uint64) {
		for ; i < end; i++ {
			d := m.descriptor(i)
			await(d.tail, i)
			sum += get(d)
			put(m.completion(i), i)
		}
		return sum
	},
}

// doorbell is a descriptor and a doorbell, and a completion.
var doorbell = shape{
	request: func(m *memory, i, end uint64) (sum uint64) {
		for ; i < end; i++ {
			put(m.descriptor(i), i)
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
			sum += get(m.descriptor(i))
			put(m.completion(i), i)
		}
		return sum
	},
}

// copying is doorbell with a copy of n bytes before the completion. The first word of the copy's
// source changes each time.
func copying(n int) shape {
	return shape{
		request: func(m *memory, i, end uint64) (sum uint64) {
			for ; i < end; i++ {
				binary.NativeEndian.PutUint64(m.source, i)
				put(m.descriptor(i), i)
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
				sum += get(m.descriptor(i))
				copy(m.target[:n], m.source[:n])
				put(m.completion(i), i)
			}
			return sum
		},
	}
}

// floors returns the rows of the floors.
func floors() []row {
	list := []row{
		{name: EachWay, shape: eachWay}, {name: SameLine, shape: sameLine}, {name: PollWQE, shape: pollWQE},
		{name: Doorbell, shape: doorbell}, {name: TwoLines, shape: twoLines},
	}
	for _, n := range lengths {
		list = append(list, row{name: Memcpy + "/" + strconv.Itoa(n), shape: copying(n)})
	}
	return list
}
