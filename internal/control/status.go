package control

import "fmt"

// Layout of the status page, which the device writes and its client reads. All
// words are 64 bits, in host order (little-endian), each published by itself:
// two words read one after the other need not belong to one moment. The state
// and the clock lie in cache lines of their own, so that a client that watches one
// is not disturbed by the others. The rest is 0, and reserved.
const (
	StatusSize     = 4096
	StatusState    = 0   // an EngineState
	StatusHz       = 8   // cycles of the device clock in a second, never 0
	StatusAsleep   = 16  // 0: the device is awake; otherwise which sleep it is in
	StatusClock    = 64  // the device clock when the device last published it
	StatusCounters = 128 // the counters, in the order of Counter
)

// EngineState is the word at StatusState. A device that was killed leaves its last
// state behind; only the end of the connection shows that it is gone.
type EngineState uint64

const (
	EngineRunning  EngineState = 1
	EngineStopping EngineState = 2 // takes no new work, finishes its work
	EngineGone     EngineState = 3 // nothing will be executed any more
)

// String returns the state's name as docs/CONTROL.md has it.
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

// A Counter counts what the device did for this client since it connected. It
// never goes back, and wraps after 2^64.
type Counter uint64

const (
	CounterWQEs      Counter = iota // send WQEs executed; flushed ones are not
	CounterBytes                    // bytes of payload moved by them
	CounterCQEs                     // completions written into the client's CQs
	CounterFailed                   // WQEs executed that ended with an error
	CounterReceives                 // receive WQEs consumed
	CounterEvents                   // completion and other events sent
	CounterExplained                // explanations, also those held back
	CounterStalls                   // times that the engine's thread waited for this client's memory
	Counters                        // how many there are
)

var counterNames = [Counters]string{"wqes", "bytes", "cqes", "failed", "receives", "events", "explained", "stalls"}

// Offset returns where the counter lies in the status page, in bytes.
func (c Counter) Offset() uint64 { return StatusCounters + 8*uint64(c) }

// String returns the counter's name as docs/CONTROL.md has it.
func (c Counter) String() string {
	if c < Counters {
		return counterNames[c]
	}
	return fmt.Sprintf("counter %d", uint64(c))
}
