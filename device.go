package nicless

import (
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
)

// A device answers the control requests of a Context: an engine in this process
// (embedded) or behind a socket (socket).
type device interface {
	// Call sends a request and fills ans with the answer. A refusal is a
	// *control.Error; any other error means that the device cannot be reached.
	// Safe for concurrent use.
	Call(op control.Op, req, ans control.Message) (control.Reply, error)

	// Done returns a channel that is closed when the device is gone.
	Done() <-chan struct{}

	// NewRegion makes a region, which is zeroed memory of at least size bytes that the
	// device shares, and returns its number. To give the region back, the caller sends
	// OpDropRegion and then unmaps mem.
	NewRegion(name string, size int) (mem *shm.Region, id uint32, err error)

	// Close ends the connection. The device destroys all objects made through it.
	Close() error
}
