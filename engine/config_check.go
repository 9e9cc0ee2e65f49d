//go:build linux && (amd64 || arm64)

package engine

import (
	"fmt"
	"slices"

	"github.com/nicless/nicless/engine/internal/cores"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/wqe"
)

// ErrCPUs reports cores in Config.CPUs, Cores or DMACores that a thread cannot be put on.
var ErrCPUs = cores.ErrUnavailable

// fill sets each number that is 0 to its default, and refuses one that is too small.
func (c *Config) fill() error {
	l, d := &c.Limits, &DefaultLimits
	for _, f := range []struct {
		name       string
		value      *int
		least, def int
	}{
		{"Burst", &c.Burst, 1, 32}, {"Slice", &c.Slice, wqe.BlockSize, 64 << 10},
		{"Limits.Regions", &l.Regions, 1, d.Regions}, {"Limits.PDs", &l.PDs, 1, d.PDs}, {"Limits.MRs", &l.MRs, 1, d.MRs},
		{"Limits.CQs", &l.CQs, 1, d.CQs}, {"Limits.QPs", &l.QPs, 1, d.QPs}, {"Limits.Channels", &l.Channels, 1, d.Channels},
	} {
		switch {
		case *f.value == 0:
			*f.value = f.def
		case *f.value < f.least:
			return fmt.Errorf("engine: %s %d; at least %d, or 0 for %d", f.name, *f.value, f.least, f.def)
		}
	}
	if l.Bytes == 0 {
		l.Bytes = d.Bytes
	}
	return nil
}

// checkCores refuses cores that the shards cannot run on.
func (c *Config) checkCores() error {
	if c.CPUs != nil && c.Cores != nil {
		return fmt.Errorf("%w: CPUs %v and Cores %v; CPUs is for an engine with one thread", ErrCPUs, c.CPUs, c.Cores)
	}
	if c.DMACores != nil && len(c.Cores) > 1 {
		return fmt.Errorf("%w: Cores %v and DMACores %v; DMA cores help one thread only", ErrCPUs, c.Cores, c.DMACores)
	}
	for i, core := range c.Cores {
		if slices.Contains(c.Cores[:i], core) {
			return fmt.Errorf("%w: core %d is named twice in %v; each gets one thread", ErrCPUs, core, c.Cores)
		}
	}
	if c.Cores != nil && len(c.Cores) == 0 {
		return fmt.Errorf("%w: Cores is empty; at least one is needed", ErrCPUs)
	}
	return nil
}

// settings returns what the device keeps of the configuration, which is filled.
func (c *Config) settings() object.Settings {
	return object.Settings{
		CPUs: c.CPUs, Cores: c.Cores, Stay: c.Stay, DMACores: c.DMACores, Populate: c.Populate,
		Idle: object.Idle(c.Idle), Burst: c.Burst, Slice: c.Slice, Limits: object.Limits(c.Limits),
	}
}
