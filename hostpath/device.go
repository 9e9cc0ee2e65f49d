package hostpath

import (
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
)

// A Device is what a Context needs: somebody who answers control requests.
type Device interface {
	// Call sends a request and fills ans with the answer. mem is memory to give
	// to the device, or nil. A refusal is a *control.Error; any other error
	// means that the device cannot be reached. Safe for concurrent use.
	Call(op control.Op, req, ans control.Message, mem *shm.Region) (control.Reply, error)

	// Done is closed when the device is gone.
	Done() <-chan struct{}

	// Create makes memory that this device can be given.
	Create(name string, size int) (*shm.Region, error)

	// Close ends the connection; the device destroys what was made through it.
	Close() error
}
