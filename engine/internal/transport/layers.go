//go:build linux && (amd64 || arm64)

package transport

import (
	"github.com/nicless/nicless/engine/internal/execution"
)

// A wires keeps the timers and the state of queue pairs whose peers are on other devices.
type wires struct{ execution.Executor }

// A receiver serves their packets.
type receiver struct{ wires }

// A sender turns their WQEs into packets.
type sender struct{ receiver }

// A PortServer serves ports.
type PortServer struct{ sender }
