//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/nicless/nicless/engine/internal/request"
	"github.com/nicless/nicless/internal/nic"
)

// Package request implements package nic, through which servers in the engine's process use the
// engine. Connections and protocols belong to the servers. The resources that servers hold for
// programs are charged here, in the ledger in which the device's own objects are charged. So a user
// has one share, whichever protocols its programs use.

func init() {
	nic.Register(func(e any) nic.Device { return e.(*Engine).nic() })
}

var _ nic.Probe = request.Device{}

// nic returns the device as servers see it.
func (e *Engine) nic() request.Device { return request.Device{Runner: e.runner} }
