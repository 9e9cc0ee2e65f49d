//go:build !(linux && (amd64 || arm64))

package main

import (
	"context"

	"github.com/nicless/nicless/internal/platform"
)

// openWatch returns an error: there is no engine on this system.
func openWatch(context.Context, string, *eventChoice) (*namedSource, error) {
	return nil, platform.Unsupported("nicless trace without show")
}
