// Package verdict is how the tools that test an engine say what they have found: faults by kind, each
// with its evidence, and one verdict over a whole run.
//
// A wait that took too long proves nothing by itself, because a busy machine makes all processes wait. So
// a [Witness] measures what the threads of the engine and of its client had meanwhile: how long they ran, how
// long they were ready to run and had no core, and how long the kernel blocked them. [Evidence.Decide]
// decides from that whether the wait is a fault, and of which kind, or cannot be decided.
//
// docs/design/0052-verdicts.md has the reasons.
//
//   - kind.go: the kinds of faults, and their order
//   - fault.go: a fault with its evidence
//   - witness.go: measures what threads have during a wait
//   - evidence.go: what was measured, and what it decides
//   - blocked.go: how long threads were in uninterruptible sleep
//   - load.go: how busy the machine was over a whole run
//   - clock_*.go: the clock of all processes, and times of suspension
package verdict

import "fmt"

// A Kind is the kind of a fault, and the verdict over a run. Higher ones are worse: the worst fault of a
// run is its verdict.
type Kind uint8

// Kinds.
const (
	OK        Kind = iota
	Undecided      // the machine gave engine or client too little of a core to decide
	Stall          // a wait above the bound, although engine and client had their cores
	NoAnswer       // a deadline passed, although engine and client had their cores
	// something else that must not happen: a process ended, a request was refused, a rule was broken
	Failed
	Leaked   // resources are held for those who are gone
	Repeated // a completion of work that was not posted or had completed; also one out of order
	// a completion or a message that did not come, although later ones did or the engine has no more
	Lost
	WrongBytes // bytes that are not as they must be, in memory or in a completion
	kinds
)

var names = [kinds]string{"OK", "not judged", "stall", "no answer", "failed", "leaked", "repeated", "lost",
	"wrong bytes"}

// String returns the kind in words.
func (k Kind) String() string {
	if k < kinds {
		return names[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// MarshalText implements encoding.TextMarshaler.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *Kind) UnmarshalText(text []byte) error {
	for i, name := range names {
		if name == string(text) {
			*k = Kind(i)
			return nil
		}
	}
	return fmt.Errorf("verdict: %q is not a kind of fault", text)
}

// Corruption reports whether the kind means that data or completions are wrong. Only these kinds do, and no
// load of the machine excuses them.
func (k Kind) Corruption() bool { return k >= Leaked }

// Status returns the exit status of a command whose verdict this is. 1 and 2 are left out: they say that the
// test could not be carried out, and that the command line is wrong.
func (k Kind) Status() int {
	switch {
	case k.Corruption():
		return 3
	case k == Failed:
		return 4
	case k == Stall:
		return 5
	case k == NoAnswer:
		return 6
	case k == Undecided:
		return 7
	}
	return 0
}
