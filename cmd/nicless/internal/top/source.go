//go:build linux && (amd64 || arm64)

package top

import (
	"context"

	"github.com/nicless/nicless/cmd/nicless/internal/latency"
	"github.com/nicless/nicless/state"
)

// A Source has the state of an engine. Its methods return the error of ctx when ctx ends. They may be called
// at the same time.
type Source interface {
	// Read asks for objects, or for a part of a ring.
	Read(ctx context.Context, r state.Request) (*state.Snapshot, error)

	// Latency takes a sample of a queue pair, which takes up to latency.MostTime.
	Latency(ctx context.Context, queue uint32) (latency.Sample, error)

	// Links counts the peers of the engine's links.
	Links(ctx context.Context) (Links, error)
}

// Links is how many peers on links can be reached, and how many cannot.
type Links struct {
	Up   int `json:"up"`
	Down int `json:"down"`
}
