package order

import "encoding/binary"

// A line is memory as a block has loaded it.
type line struct {
	bytes [lineBytes]byte
	stamp uint64
}

const lineBytes = 128

// line returns a line that the lane's block has loaded, or loads it, or returns nil: as chance has it.
func (l *Lane) line(number uint64) *line {
	b, m := l.block, l.block.memory
	n := b.lines[number]
	if n != nil && m.rng.IntN(4) != 0 && !l.over(n, number) {
		return n
	}
	if m.rng.IntN(4) == 0 {
		return nil
	}
	n = &line{stamp: m.stamp}
	for at := uint64(0); at < lineBytes; at += 8 {
		binary.LittleEndian.PutUint64(n.bytes[at:], m.load(number*lineBytes+at, 8))
	}
	b.lines[number] = n
	return n
}

// over reports whether the lane knows of a store to a line that the block has loaded before: others to the
// same line, and what the lane knows beside it, do not matter.
func (l *Lane) over(n *line, number uint64) bool {
	m := l.block.memory
	if l.sees.newest() <= n.stamp {
		return false
	}
	if m.dropped > n.stamp {
		return true
	}
	const words = lineBytes / 8
	for k := range uint64(words) {
		at := number*words + k
		if m.load(8*at, 8) == binary.LittleEndian.Uint64(n.bytes[8*k:]) {
			continue // that is the newest value
		}
		if m.words[at] == nil {
			if l.sees.knows(device) > n.stamp {
				return true // nobody else has stored there
			}
			continue
		}
		if m.look(at).newer(n.stamp, l.sees) {
			return true
		}
	}
	return false
}

// update writes a store of the block's own into the line that it has loaded.
func (b *Shared) update(s store) {
	for k := range uint64(s.size) {
		at := s.address + k
		if l := b.lines[at/lineBytes]; l != nil {
			l.bytes[at%lineBytes] = byte(s.value >> (8 * k))
		}
	}
}
