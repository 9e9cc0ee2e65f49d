//go:build !(linux && (amd64 || arm64))

package engine

import "github.com/nicless/nicless/internal/platform"

// An Engine is one device. This system is not supported, so no Engine can be made.
type Engine struct{}

// New always fails, because this system is not supported.
func New(Config) (*Engine, error) { return nil, platform.Unsupported("engine:") }
