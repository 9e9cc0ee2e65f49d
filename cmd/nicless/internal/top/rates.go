//go:build linux && (amd64 || arm64)

package top

import "github.com/nicless/nicless/state"

// rates are counts a second.
type rates struct{ wqes, bytes, cqes, failed, receives float64 }

func (r *rates) add(o rates) {
	r.wqes += o.wqes
	r.bytes += o.bytes
	r.cqes += o.cqes
	r.failed += o.failed
	r.receives += o.receives
}

// pastCounts are the counts of the last snapshot that had an object, with the time in ns of the device clock.
type pastCounts struct {
	threads map[int]threadRow
	clients map[uint32]pastCount
	queues  map[uint32]pastCount
	cqs     map[uint32]pastCount
}

type pastCount struct {
	time uint64
	state.Counts
	rates rates // that were made of it
}

// leastSpan is the least time, in ns, of which a rate is made. If the user's keys let the engine be asked
// more often, rates stay.
const leastSpan = 200e6

// after gives a count the rates since the moment before, and returns what the next rates are made of. Rates
// are unknown if there was no moment before, and if a count went back, as that of a queue does at RESET.
func (now pastCount) after(before pastCount, ok bool) pastCount {
	if ok && now.time-before.time < leastSpan {
		return before
	}
	t := float64(now.time-before.time) / 1e9
	if !ok || now.time < before.time {
		t = unknown
	}
	rate := func(now, before uint64) float64 {
		if now < before {
			return unknown
		}
		return float64(now-before) / t
	}
	now.rates = rates{wqes: rate(now.WQEs, before.WQEs), bytes: rate(now.Bytes, before.Bytes),
		cqes: rate(now.CQEs, before.CQEs), failed: rate(now.Failed, before.Failed),
		receives: rate(now.Receives, before.Receives)}
	return now
}
