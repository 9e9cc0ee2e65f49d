//go:build linux && (amd64 || arm64)

package completion

import (
	"github.com/nicless/nicless/engine/internal/report"
)

// A Completer writes completions and sends their events.
type Completer struct {
	report.Reporter
	Vendor Vendor // the vendor byte of error CQEs
}
