//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/nicless/nicless/engine/internal/request"
	"github.com/nicless/nicless/internal/nic"
)

func init() {
	nic.Register(func(e any) nic.Device { return e.(*Engine).nic() })
}

var _ nic.Probe = request.Device{}

// nic returns the device as servers see it.
func (e *Engine) nic() request.Device { return request.Device{Runner: e.runner} }
