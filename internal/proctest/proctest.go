// Package proctest has what tests that run programs share. Only tests import it.
package proctest

import (
	"bytes"
	"os"
	"os/exec"
	"sync"
	"testing"
)

// An Output is what a process has printed so far. The zero value is empty. It is safe for concurrent use.
type Output struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{} // closed and replaced when there is more output; nil: not requested
}

// Write adds to the output.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.more != nil {
		close(o.more)
		o.more = nil
	}
	return o.text.Write(p)
}

// String returns all of the output.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// Len returns how many bytes the output has.
func (o *Output) Len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Len()
}

// Changed returns a channel that is closed when there is more output.
func (o *Output) Changed() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.more == nil {
		o.more = make(chan struct{})
	}
	return o.more
}

// Need skips the test if one of the programs is not installed. In CI the test fails instead.
func Need(t *testing.T, programs ...string) {
	t.Helper()
	for _, name := range programs {
		if _, err := exec.LookPath(name); err != nil {
			Missing(t, "%v (.ci/run has the list of Debian's packages)", err)
		}
	}
}

// Missing skips the test because something is not there. In CI the test fails instead.
func Missing(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("in CI it has to be there: "+format, args...)
	}
	t.Skipf(format, args...)
}
