package calibrate

import "time"

// Options says where and for how long to measure.
type Options struct {
	// Cores are two different cores that this process may run on. A negative number means the
	// first allowed core that is not the other one. The first core requests, the second one answers.
	Cores [2]int

	// Budget is for how long Run plays rounds. It needs up to a quarter of a second more before.
	// Zero means 2 s.
	Budget time.Duration
}

// A Sample is one price or one floor.
type Sample struct {
	Name   string
	Median float64 // of the rounds that count, in nanoseconds except for LinesInFlight

	Low, High float64 // the quartiles of these rounds
	Rounds    int     // how many rounds count
	Note      string  // what the sample is, and what is special about it on this machine
}

// A Result is what Run measured.
type Result struct {
	Machine string // the processor, the two cores, the kernel, and whether it is a virtual machine
	Prices  []Sample
	Floors  []Sample

	// Values has the samples of each round that counts, by their names. All slices are equally
	// long, and element i of each belongs to the same round. Differences of rows may be slightly
	// below 0.
	Values map[string][]float64

	Rounds    int  // how many rounds count
	Dropped   int  // how many do not, because other programs or a change of state disturbed them
	Disturbed bool // if more rounds were disturbed than not; if nearly all were, all count and Dropped is 0
}

// The names of the prices.
const (
	Signal        = "signal"
	Handover      = "handover"
	Post          = "post"
	Data          = "data"
	Chase         = "chase"
	Next          = "next"
	WriteNext     = "write_next"
	Atomic        = "atomic"
	Copy          = "copy"
	Hit           = "hit"
	LLCLoad       = "llc_load"
	DRAMLoad      = "dram_load"
	LinesInFlight = "lines_in_flight"
)

// notes says what each price is.
var notes = map[string]string{
	Signal:        "one way of a word that the other core polls: half of one line per direction",
	Handover:      "one way of a line that both cores write: half of its round trip",
	Post:          "one way of a line of 64 bytes in a ring whose last word the other core polls: a word there and a line back, less a signal",
	Data:          "one more line, written before a signal and read after it: a line and a word there and a word back, less one line per direction",
	Chase:         "one more line that the other core has written and whose address is in the line before: slope from 2 to 6 lines",
	Next:          "reading one more line of a block that the other core has written: slope from 1 KiB to 4 KiB",
	WriteNext:     "writing one more line of a block that the other core has read: slope from 1 KiB to 4 KiB",
	Atomic:        "a locked addition to a line that the other core has changed, less one to an own line",
	Copy:          "copying one more line within the core's own cache, between signals: slope from 64 B to 4 KiB",
	Hit:           "a load from the core's first cache that waits for the load before",
	LLCLoad:       "a load from the last cache that waits for the load before",
	DRAMLoad:      "a load from memory that waits for the load before",
	LinesInFlight: "lines that one core fetches from the other at a time: chase / next",
}

// The names of the floors are those of the floors in C.
const (
	EachWay  = "pp_line_each_way_rtt"
	SameLine = "pp_same_line_rtt"
	PollWQE  = "pp_poll_wqe_cqe_rtt"
	Doorbell = "pp_wqe_doorbell_cqe_rtt"
	TwoLines = "pp_two_lines_each_way_rtt"

	Memcpy = "pp_wqe_doorbell_memcpy_cqe_rtt" // followed by a slash and the number of bytes
)

// lengths are the numbers of bytes that the floors with Memcpy copy.
var lengths = []int{8, 64, 256, 4096}

// defaultBudget is the Budget that zero means.
const defaultBudget = 2 * time.Second
