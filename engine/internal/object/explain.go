//go:build linux && (amd64 || arm64)

package object

import (
	"fmt"

	"github.com/nicless/nicless/engine/internal/codes"
)

// LogBudget is how many explanations of all clients together are written to the log in a
// second. They are limited because writing takes time of the device's own thread. The shares
// of one user and of one client are in log.go.
const LogBudget = 100

// A Reason is why something failed. Its text is formatted only if it is used.
type Reason struct {
	Code   codes.Code
	format string
	args   []any
}

func Because(code codes.Code, format string, args ...any) Reason { return Reason{code, format, args} }

// String returns the text.
func (r Reason) String() string { return fmt.Sprintf(r.format, r.args...) }
