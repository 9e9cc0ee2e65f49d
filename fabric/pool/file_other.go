//go:build !linux

package pool

import (
	"context"

	"github.com/nicless/nicless/internal/platform"
	"github.com/nicless/nicless/internal/shm"
)

const canFlush = false

// attach fails on this system.
func attach(context.Context, *Config, *waiting, timer) (*shm.Region, error) {
	return nil, platform.Unsupported("memory that several hosts share")
}

func bootID() uint64 { return 0 }
