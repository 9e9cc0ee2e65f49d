//go:build !(linux && (amd64 || arm64))

package engine

import "github.com/nicless/nicless/internal/platform"

// An Engine is one device. There is none on this system.
type Engine struct{}

// New fails on this system.
func New(Config) (*Engine, error) { return nil, platform.Unsupported("engine:") }
