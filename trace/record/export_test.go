package record

import "testing"

// SetMost sets the limits until the test ends.
func SetMost(t *testing.T, parts, queues int) {
	was := most
	t.Cleanup(func() { most = was })
	most = limits{parts, queues}
}
