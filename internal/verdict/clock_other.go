//go:build !linux

package verdict

import "time"

var start = time.Now()

// Now returns the time since the start of this process.
func Now() time.Duration { return time.Since(start) }

// Suspended returns 0: it is not known here.
var Suspended = func() time.Duration { return 0 }
