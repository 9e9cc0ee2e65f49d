//go:build !unix

package top

import "time"

var started = time.Now()

// processorTime returns the time since the program began, where the system has no getrusage: more than the
// processor time, so the screen asks less often.
func processorTime() time.Duration { return time.Since(started) }
