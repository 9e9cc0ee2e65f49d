//go:build linux && (amd64 || arm64)

package auth

const (
	// Window is how far a message may come behind the latest one. Batches of 64 datagrams that go
	// over several links, and sit in queues of the kernel (8 MiB, which are 8192 datagrams of
	// 1 KiB), may overtake each other.
	Window = 64 * (windowWords - 1)

	windowWords = 256 // a power of two
)

// A window knows which counters have come. Each counter has a bit in a ring of words, as in RFC 6479. The
// ring has one word more than the window needs. When the latest counter grows, the words between the old one
// and the new one are cleared, and no word is shifted.
type window struct {
	latest uint64 // counters begin with 1
	words  [windowWords]uint64
}

// isNew reports whether the counter has not come, and is not too old to know.
func (w *window) isNew(n uint64) bool {
	switch {
	case n == 0 || n+Window <= w.latest:
		return false
	case n > w.latest:
		return true
	}
	return w.words[n/64%windowWords]>>(n%64)&1 == 0
}

// add notes that a counter, for which isNew holds, has come.
func (w *window) add(n uint64) {
	if n > w.latest {
		for steps, word := min(n/64-w.latest/64, windowWords), w.latest/64; steps > 0; steps-- {
			word++
			w.words[word%windowWords] = 0
		}
		w.latest = n
	}
	w.words[n/64%windowWords] |= 1 << (n % 64)
}
