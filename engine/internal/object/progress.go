//go:build linux && (amd64 || arm64)

package object

import (
	"github.com/nicless/nicless/engine/internal/usage"
	"github.com/nicless/nicless/internal/shm"
)

// A progress is the part of a shard that other threads, above all the watchdog's, read at
// any time. Its words are written by the thread that works for the shard.
//
// Publish: at, mark, busy, thread. Observed by Engine.checkShards.
type progress struct {
	_      [64]byte
	At     shm.Word64 // the queue whose memory is touched: a QPN, or AtCQ and a CQN
	Mark   shm.Word64 // device clock when the shard last advanced
	Busy   shm.Word64 // 1: in a batch of steps; 0: the shard touches no memory of clients
	Thread shm.Word64 // thread id; 0: no thread runs the shard
	_      [64]byte
}

// AtCQ is the bit which says that progress.at is a CQN.
const AtCQ = 1 << 32

// A Pace is how a shard measures its own progress.
type Pace struct {
	Bound      uint64 // SlowTime in cycles; the largest uint64 while no thread runs the shard
	First      uint64 // sq.done of the visited queue at the time shard.ticks, when the visit began to work
	TimedUntil uint64 // device clock until which each poll is timed separately; 0: polls are timed together
	Usage      usage.Meter
}
