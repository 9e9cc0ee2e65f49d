package state

import "time"

// A Device says what an engine is.
type Device struct {
	GUID    string    `json:"guid"`    // 16 hexadecimal digits
	Name    string    `json:"name"`    // of the device that a client sees at port 0
	PID     int       `json:"pid"`     // process of the engine
	Started time.Time `json:"started"` // when the engine was made
	Sees    string    `json:"sees"`    // whose objects follow: SeesAll or SeesOwn

	Clients int `json:"clients"` // those that follow, and their objects
	Queues  int `json:"queues"`
	CQs     int `json:"cqs"`
	SRQs    int `json:"srqs"`

	Watches int `json:"watches"` // traces that somebody takes of this device
	Faults  int `json:"faults"`  // rules of faults that this device obeys

	// Of clients that are gone: their counts, only if the reader sees all, and the last explanations, up to
	// MostErrors of a user.
	Past   Counts  `json:"past"`
	Errors []Error `json:"errors,omitempty"`
}

// Values of Device.Sees.
const (
	SeesAll = "all" // the reader is root or the engine's user
	SeesOwn = "own" // the objects of the reader's user
)

// A Thread is one thread of an engine. Times are sums since the engine began, in nanoseconds.
type Thread struct {
	Number int    `json:"number"` // from 0
	Time   uint64 `json:"time"`   // device clock in ns: the moment at which this was read
	Busy   uint64 `json:"busy"`   // steps that found work, by an estimate: see docs/design/0084
	Ran    uint64 `json:"ran"`    // the thread ran on a core, as the kernel counts; 0: unknown
	Waited uint64 `json:"waited"` // the thread was ready and had no core; 0: unknown
	Asleep bool   `json:"asleep"`

	Clients int `json:"clients"` // whose work this thread does
	Queues  int `json:"queues"`  // queue pairs of these that are not in RESET
	Warm    int `json:"warm"`    // of these, queue pairs that each step looks at
	Stalled int `json:"stalled"` // of these, queue pairs whose next WQE has to wait

	Stuck string `json:"stuck,omitempty"` // why the thread has not advanced for a while, in words
}

// Counts are what an engine has done for a client since the client came. They never go back.
type Counts struct {
	WQEs      uint64 `json:"wqes"`      // executed; flushed WQEs are not counted
	Bytes     uint64 `json:"bytes"`     // of payload, moved by these WQEs
	CQEs      uint64 `json:"cqes"`      // completions written
	Failed    uint64 `json:"failed"`    // WQEs that ended with an error
	Receives  uint64 `json:"receives"`  // receive WQEs consumed
	Events    uint64 `json:"events"`    // sent
	Explained uint64 `json:"explained"` // explanations, including those that were held back
	Stalls    uint64 `json:"stalls"`    // times that a thread had to wait for this client's memory
}

// Add adds other counts to c.
func (c *Counts) Add(o Counts) {
	c.WQEs += o.WQEs
	c.Bytes += o.Bytes
	c.CQEs += o.CQEs
	c.Failed += o.Failed
	c.Receives += o.Receives
	c.Events += o.Events
	c.Explained += o.Explained
	c.Stalls += o.Stalls
}

// A Client is a connection of a program to an engine. A program may have several.
type Client struct {
	Number  uint32 `json:"number"` // never given to another client of this engine
	Time    uint64 `json:"time"`   // device clock in ns: the moment at which this was read
	PID     int    `json:"pid"`    // 0: unknown
	UID     uint32 `json:"uid"`
	Program string `json:"program"` // name of the process (/proc/PID/comm); "": unknown
	Name    string `json:"name"`    // as the log of the engine shows it
	Port    int    `json:"port"`    // the engine's device that the client uses
	Thread  int    `json:"thread"`

	Queues  int    `json:"queues"`
	CQs     int    `json:"cqs"`
	SRQs    int    `json:"srqs"`
	MRs     int    `json:"mrs"`     // memory keys: registered memory, windows and lists
	PDs     int    `json:"pds"`     // protection domains
	Memory  uint64 `json:"memory"`  // bytes that the client shares with the engine
	Linked  int    `json:"linked"`  // queue pairs whose peer is on another device
	Waiting int    `json:"waiting"` // queue pairs whose next WQE has to wait

	Counts Counts  `json:"counts"`
	Errors []Error `json:"errors,omitempty"` // the last explanations that it was given, the newest first
}

// MostErrors is the most elements of Client.Errors. An engine whose log is off keeps none of a client that
// asks for no explanations.
const MostErrors = 4

// An Error is a mistake or a failure that the engine has explained.
type Error struct {
	Time  time.Time `json:"time"`
	Code  string    `json:"code"`  // see docs/EXPLANATIONS.md
	Queue uint32    `json:"queue"` // number of a queue pair or CQ; 0: a request of the client was refused
	Index uint16    `json:"index"` // of the entry
	Text  string    `json:"text"`

	Client string `json:"client,omitempty"` // if it is gone: its program and process
}
