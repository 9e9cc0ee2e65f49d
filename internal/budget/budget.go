// Package budget bounds how often something may happen: in all, and for each of very many
// sources, which strangers can make up as they like. The memory does not depend on how many
// sources there are.
package budget

import (
	"hash/maphash"
	"time"
)

// A Rate is how often something may happen.
type Rate struct {
	PerSecond float64 // above 0
	Burst     float64 // how many may come at once: at least 1
}

// A Bucket counts against a rate. The zero value is empty: see [NewBucket]. Not safe for concurrent use.
type Bucket struct {
	rate   Rate
	tokens float64
	last   time.Time
}

// NewBucket returns a bucket from which a whole burst can be taken.
func NewBucket(r Rate) Bucket { return Bucket{rate: r, tokens: r.Burst} }

// Take takes n from what the rate allows, and reports whether there was as much. If there was
// not, it takes nothing. now does not go back.
func (b *Bucket) Take(now time.Time, n float64) bool {
	b.fill(now)
	if b.tokens < n {
		return false
	}
	b.tokens -= n
	return true
}

// Wait returns how long it takes from now until n can be taken; 0 if they can be now. n is at most the burst.
func (b *Bucket) Wait(now time.Time, n float64) time.Duration {
	b.fill(now)
	if b.tokens >= n {
		return 0
	}
	return time.Duration((n-b.tokens)/b.rate.PerSecond*float64(time.Second)) + 1
}

func (b *Bucket) fill(now time.Time) {
	if !b.last.IsZero() {
		if d := now.Sub(b.last); d > 0 {
			b.tokens = min(b.rate.Burst, b.tokens+b.rate.PerSecond*d.Seconds())
		}
	}
	b.last = now
}

// buckets is how many sources have a bucket of their own, as far as their hashes differ. Sources
// share a bucket by chance only, because the seed is secret.
const buckets = 4096

// Sources count against a rate for each source, and against one for all of them together. Not
// safe for concurrent use.
type Sources struct {
	seed maphash.Seed
	each Rate
	of   [buckets]Bucket
	all  Bucket
}

// NewSources returns Sources that allow each rate for a source, and all for all of them.
func NewSources(each, all Rate) *Sources {
	s := &Sources{seed: maphash.MakeSeed(), each: each, all: NewBucket(all)}
	for i := range s.of {
		s.of[i] = NewBucket(each)
	}
	return s
}

// Take takes one from what a source may have, and from what all may have. It reports whether
// there was one of both.
func (s *Sources) Take(source [16]byte, now time.Time) bool {
	return s.Alone(source, now) && s.all.Take(now, 1)
}

// Alone is Take for a source that does not count among the others.
func (s *Sources) Alone(source [16]byte, now time.Time) bool {
	return s.of[maphash.Bytes(s.seed, source[:])%buckets].Take(now, 1)
}
