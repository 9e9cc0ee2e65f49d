package verdict

import (
	"errors"
	"fmt"
	"time"
)

// A Fault is one thing that was found, with its evidence.
type Fault struct {
	Kind     Kind      `json:"kind"`
	Who      string    `json:"who,omitempty"` // which process has found it
	Expected string    `json:"expected"`
	Found    string    `json:"found"`
	Evidence *Evidence `json:"evidence,omitempty"` // nil: not measured
}

// New returns a fault. The format and its arguments say what was found.
func New(k Kind, expected, format string, args ...any) *Fault {
	return &Fault{Kind: k, Expected: expected, Found: fmt.Sprintf(format, args...)}
}

// Error says what was found and what was expected, without the evidence.
func (f *Fault) Error() string {
	return fmt.Sprintf("%v: %s; expected: %s", f.Kind, f.Found, f.Expected)
}

// String is Error with the one who found it, and the evidence.
func (f *Fault) String() string {
	text := f.Error()
	if f.Who != "" {
		text = f.Who + ": " + text
	}
	if f.Evidence != nil {
		text += fmt.Sprintf(" (%v)", f.Evidence)
	}
	return text
}

// With adds evidence, unless the fault has some.
func (f *Fault) With(e Evidence) *Fault {
	if f.Evidence == nil {
		f.Evidence = &e
	}
	return f
}

// Late returns the fault of a deadline that has passed: of kind k, or Undecided if the evidence does not
// suffice.
func Late(k Kind, e Evidence, expected, format string, args ...any) *Fault {
	return New(e.Decide(k), expected, format, args...).With(e)
}

// Of returns the fault that an error is, or nil.
func Of(err error) *Fault {
	var f *Fault
	if errors.As(err, &f) {
		return f
	}
	return nil
}

// IsTimeout reports whether an error says that a deadline has passed.
func IsTimeout(err error) bool {
	var e interface{ Timeout() bool }
	return errors.As(err, &e) && e.Timeout()
}

// FromError returns the fault that an error of a call is. e is the evidence of the wait for the call.
func FromError(err error, e Evidence) *Fault {
	if f := Of(err); f != nil {
		return f.With(e)
	}
	if IsTimeout(err) {
		return Late(NoAnswer, e, "an answer before the deadline", "%v", err)
	}
	return New(Failed, "no error", "%v", err).With(e)
}

// Worst returns the verdict over faults: the worst of their kinds.
func Worst(faults []*Fault) (k Kind) {
	for _, f := range faults {
		k = max(k, f.Kind)
	}
	return k
}

// Counts has the number of faults of each kind. The kinds of which there is none are in it too.
func Counts(faults []*Fault) map[Kind]int {
	n := make(map[Kind]int, kinds-1)
	for k := Undecided; k < kinds; k++ {
		n[k] = 0
	}
	for _, f := range faults {
		n[f.Kind]++
	}
	return n
}

// Title returns a verdict as the last line of a result says it: "NOT OK: corruption (lost)".
func Title(k Kind) string {
	switch {
	case k == OK:
		return "OK"
	case k.Corruption():
		return fmt.Sprintf("NOT OK: corruption (%v)", k)
	case k == Undecided:
		return "NOT JUDGED: this machine was too busy, or could not be measured"
	}
	return fmt.Sprintf("NOT OK: %v", k)
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/1e6) }
