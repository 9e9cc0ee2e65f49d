//go:build linux && (amd64 || arm64)

package transport

import (
	"github.com/nicless/nicless/engine/internal/execution"
)

// A wires keeps the timers and the state of queue pairs on wires: those whose peers are on other devices.
type wires struct {
	execution.Executor
	detours detours // of packets that rules of faults act on
}

// A receiver serves the requests of the peers, which come in packets.
type receiver struct{ wires }

// A sender turns WQEs of queue pairs on wires into packets, and serves the answers.
type sender struct{ receiver }

// A PortServer takes packets from ports and gives each to the receiver or the sender.
type PortServer struct{ sender }
