package control

import "fmt"

// Layout of the status page, which the device writes and its client reads. All words are 64
// bits, in host order (little-endian). Each word is published separately, so two words that
// are read one after the other may belong to different moments. The state and the clock are
// in different cache lines than the other words, so that a client that watches one of them
// is not disturbed by stores to the others. The rest of the page is 0 and reserved. The memory goes on after
// the page, with the ring of reasons.
const (
	StatusSize     = 4096
	StatusState    = 0   // an EngineState
	StatusHz       = 8   // cycles of the device clock in a second, never 0
	StatusAsleep   = 16  // 0, StatusNaps: the device is awake; else the number of its present sleep
	StatusClock    = 64  // the device clock when the device last published it
	StatusCounters = 128 // the counters, in the order of Counter

	// The ring of reasons, in memory after the page; see package reason. Its words have a line of their own.
	StatusReasonLast   = 256 // number of the newest reason; 0: none yet
	StatusReasons      = 264 // number of reasons that the ring holds; 0: the device has no ring
	StatusReasonSize   = 272 // bytes of a reason
	StatusReasonOffset = 280 // offset of the first reason in the memory
)

// StatusNaps is the value at StatusAsleep of a device that is awake, but may fall asleep without a barrier on
// its posters, because cores are short. A poster that finds it has to execute a full barrier, between the
// announcement of its work and another load of the word. Numbers of sleeps are less.
const StatusNaps = 1 << 63

// EngineState is the word at StatusState. If a device was killed, the word keeps its last
// state; only the end of the connection shows that the device is gone.
type EngineState uint64

const (
	EngineRunning  EngineState = 1
	EngineStopping EngineState = 2 // the device takes no new work and finishes its work
	EngineGone     EngineState = 3 // the device executes no more work
)

// String returns the state's name in docs/CONTROL.md.
func (s EngineState) String() string {
	switch s {
	case EngineRunning:
		return "running"
	case EngineStopping:
		return "stopping"
	case EngineGone:
		return "gone"
	}
	return fmt.Sprintf("state %d", uint64(s))
}

// A Counter counts what the device has done for this client since the client connected. It
// never decreases; it wraps after 2^64.
type Counter uint64

const (
	CounterWQEs       Counter = iota // send WQEs executed; flushed WQEs are not counted
	CounterBytes                     // bytes of payload that these WQEs have moved
	CounterCQEs                      // completions written into the client's CQs
	CounterFailed                    // WQEs executed that ended with an error
	CounterReceives                  // receive WQEs consumed
	CounterEvents                    // completion and other events sent
	CounterExplained                 // explanations, including those that were held back
	CounterStalls                    // times that the engine's thread waited for this client's memory
	CounterSuppressed                // of these, explanations that were not sent as events
	Counters                         // number of counters
)

var counterNames = [Counters]string{"wqes", "bytes", "cqes", "failed", "receives", "events", "explained",
	"stalls", "suppressed"}

// Offset returns the offset of the counter in the status page, in bytes.
func (c Counter) Offset() uint64 { return StatusCounters + 8*uint64(c) }

// String returns the counter's name in docs/CONTROL.md.
func (c Counter) String() string {
	if c < Counters {
		return counterNames[c]
	}
	return fmt.Sprintf("counter %d", uint64(c))
}
