package nicless

import (
	"errors"
	"fmt"
	"strings"

	"github.com/nicless/nicless/hostpath"
	"github.com/nicless/nicless/internal/control"
)

var (
	// ErrClosed reports the use of an object after its Close, or after the
	// Close of its Context.
	ErrClosed = errors.New("nicless: object is closed")

	// errZero reports the use of a value that was not made by Open, Dial or a method.
	errZero = fmt.Errorf("%w: it was never made (zero value)", ErrClosed)

	// ErrDeviceGone reports that the engine has stopped or died. Registered
	// memory is intact; a new Context is needed.
	ErrDeviceGone = errors.New("nicless: the device is gone")

	// ErrOverrun reports that a completion queue had no room for a completion. The queue
	// gets no more completions, and its queue pairs are in the error state. They accept
	// work requests, as all queue pairs in that state do, but no completions follow.
	// CQ.Poll and CQ.Wait return ErrOverrun. To avoid an overrun, have at most
	// CQConfig.Entries completions outstanding.
	ErrOverrun = errors.New("nicless: completion queue has overrun")

	// ErrNotPolled is the error of the zero Completion, which no Poll has returned.
	ErrNotPolled = hostpath.ErrNotPolled

	// ErrFull reports that a queue has no room until completions are polled.
	ErrFull = hostpath.ErrFull

	// ErrNotConnected reports a send posted before the queue pair was connected, or, on
	// UD, before it was activated.
	ErrNotConnected = errors.New("nicless: queue pair is not connected")

	errNotActive = fmt.Errorf("%w: Activate it first, it is UD", ErrNotConnected)
)

// Refusals by the device, for errors.Is. The text of the error names the
// value, the limit and the rule.
var (
	ErrInvalid     error = &control.Error{Code: control.CodeInvalid}
	ErrNotFound    error = &control.Error{Code: control.CodeNotFound}
	ErrBusy        error = &control.Error{Code: control.CodeBusy}
	ErrLimit       error = &control.Error{Code: control.CodeLimit}
	ErrState       error = &control.Error{Code: control.CodeState}
	ErrVersion     error = &control.Error{Code: control.CodeVersion}
	ErrUnsupported error = &control.Error{Code: control.CodeUnsupported}
	ErrDenied      error = &control.Error{Code: control.CodeDenied} // of the user, not of the client
)

// An opError says what was being done when something failed.
type opError struct {
	what string
	err  error
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return &opError{what, err}
}

// Error returns a text that begins with "nicless: " once, even if the wrapped error's text
// does so too.
func (e *opError) Error() string {
	return "nicless: " + e.what + ": " + strings.TrimPrefix(e.err.Error(), "nicless: ")
}

func (e *opError) Unwrap() error { return e.err }
