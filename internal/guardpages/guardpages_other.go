//go:build !(linux && amd64)

package guardpages

import "errors"

// Pages is memory of which parts can be protected.
type Pages struct{}

// New returns an error: the handler is there for Linux on amd64.
func New([]byte, func(Fault)) (*Pages, error) {
	return nil, errors.New("guardpages: pages can be protected on Linux on amd64 only")
}

// Protect does nothing.
func (*Pages) Protect([]byte, uint64) int { return 0 }

// Release does nothing.
func (*Pages) Release([]byte) {}

// Flush does nothing.
func Flush() {}

// Close does nothing.
func (*Pages) Close() {}

// Lost returns 0.
func Lost() uint64 { return 0 }
