//go:build !linux

package accel

import "github.com/nicless/nicless/internal/platform"

// pin fails on this system if the configuration names cores.
func (c *Config) pin() (unpin func(), err error) {
	if c.CPUs != nil {
		return func() {}, platform.Unsupported("accel: CPUs")
	}
	return func() {}, nil
}
