// Package await is how tests wait for what they do not drive themselves: another thread, another
// process, the network.
//
// A test must not fail because the machine was slow, and must end if what it waits for never comes.
// So a wait has patience, which is counted in time during which the awaited work could go on:
//
//   - Time in which a thread of this process, or of a process that descends from it, was ready to
//     run and had no core does not count (package schedstat), nor does time that the hypervisor
//     gave to others. But at least a tenth of the time counts in which the waiting thread could look.
//   - Time in which the waiting thread itself was held up counts only in part, so a machine that
//     was suspended, or a kernel that does not count delays, does no harm. If it hardly ever runs,
//     the limit of go test comes first.
//   - Where a wait says how far the awaited work is, patience begins anew whenever that changes.
//
// Patience is 30 s: what a test waits for takes at most a second or two on a machine with nothing
// else to do, and disks and emulated processors can be ten times slower.
//
// Only tests import this package.
package await

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// Patience is how long a wait goes on without progress.
const Patience = 30 * time.Second

// ErrOver is the cause of the end of a Context whose patience is over.
var ErrOver = fmt.Errorf("await: nothing has come in %v in which it could", Patience)

// pause is the time between two looks at a condition. It costs a core little, and a test on a
// quiet machine loses little by it.
const pause = time.Millisecond

// Until waits until done, which it calls once in a millisecond, returns true. If patience is
// over it fails the test and says what has not happened: "the client has connected".
//
// Each state reports how far the awaited work is. Patience begins anew when the text of one changes,
// and the last texts are in the failure. Until must be called by the test's own goroutine.
func Until(t testing.TB, what string, done func() bool, state ...func() any) {
	t.Helper()
	if err := until(begin(Patience), what, done, state); err != nil {
		t.Fatal(err)
	}
}

func until(p *patience, what string, done func() bool, state []func() any) error {
	last := describe(state)
	for !done() {
		time.Sleep(pause)
		if !p.look() {
			continue // too early for what costs more than the condition
		}
		if now := describe(state); now != last {
			last = now
			p.renew()
		}
		if p.over() {
			return fmt.Errorf("has not happened: %s; %v%s", what, p, last)
		}
	}
	return nil
}

// Moves waits until done returns true, and then returns true; or until no text of a state has changed for
// limit, counted as Until counts patience, and then returns false.
func Moves(limit time.Duration, done func() bool, state ...func() any) bool {
	return until(begin(limit), "", done, state) == nil
}

// Receive waits for a value from c and returns it, or the zero value if c is closed. Like Until, it
// fails the test if patience is over.
func Receive[T any](t testing.TB, what string, c <-chan T, state ...func() any) (value T) {
	t.Helper()
	select {
	case value = <-c: // most have come already, or come without any delay
		return value
	default:
	}
	came := false
	Until(t, what, func() bool {
		select {
		case value = <-c:
			came = true
		default:
		}
		return came
	}, state...)
	return value
}

// Context returns a context that ends when the test does, or when patience is over; then its cause
// is ErrOver. It has no deadline that a callee could see. It is for calls that take a context, such
// as exec.CommandContext, and must not be used in a bubble of testing/synctest.
//
// All contexts and deadlines of a process share one goroutine, so a thousand cost as much as one.
func Context(t testing.TB) context.Context {
	ctx, cancel := context.WithCancelCause(t.Context())
	end := all.begin(func() { cancel(ErrOver) })
	t.Cleanup(func() {
		end()
		cancel(errors.New("await: the test has ended"))
	})
	return ctx
}

// Deadline makes all reads and writes of a connection fail when patience is over. Patience begins
// with the call.
func Deadline(t testing.TB, c interface{ SetDeadline(time.Time) error }) {
	t.Cleanup(all.begin(func() { _ = c.SetDeadline(time.Unix(1, 0)) }))
}

// describe returns the texts of states, each in a line of its own.
func describe(state []func() any) (text string) {
	for _, f := range state {
		text += fmt.Sprintf("\n\t%+v", f())
	}
	return text
}
