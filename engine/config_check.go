//go:build linux && (amd64 || arm64)

package engine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/nicless/nicless/engine/internal/cores"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/nic"
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
	if c.PostersStep && (c.Idle != IdleNap || len(c.Cores) > 1) {
		return fmt.Errorf("engine: PostersStep with Idle %d and %d Cores; it needs IdleNap (%d), because posters take the place of a thread that sleeps, and one thread",
			c.Idle, len(c.Cores), IdleNap)
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

// checkIdentity refuses a name or GUID that no device can have.
func (c *Config) checkIdentity() error {
	if err := nic.Names(c.DeviceNames).Check(1); err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	if c.GUID == 0 {
		return nil
	}
	if err := CheckGUID(c.GUID, 1); err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	return nil
}

// groupBit is the bit of an EUI-64 that is set in addresses of groups.
const groupBit = 1 << 56

// CheckGUID says why an engine with so many devices, at least 1, cannot have a GUID. A GUID is an EUI-64 of
// one device, so it is not 0 and not of a group, as the broadcast address is. The devices have successive
// GUIDs, which must not be of a group either.
func CheckGUID(guid uint64, devices int) error {
	last := guid + uint64(devices) - 1
	switch {
	case guid == 0:
		return errors.New("GUID 0 is reserved")
	case guid&groupBit != 0:
		return fmt.Errorf("GUID %016x is of a group: bit 0 of its first byte, %02x, is set", guid, guid>>56)
	case last < guid || last&groupBit != 0:
		return fmt.Errorf("GUID %016x for %d devices: that of the last, %016x, is of a group", guid, devices, last)
	}
	return nil
}

// guid returns the GUID of the engine: the one that is set, or else an EUI-64 that no vendor has assigned,
// made of random bits.
func (c *Config) guid(random uint64) uint64 {
	const local = 2 << 56 // the bit of an EUI-64 that is not a vendor's
	if c.GUID != 0 {
		return c.GUID
	}
	return random&^groupBit | local
}

// settings returns what the device keeps of the configuration, which is filled.
func (c *Config) settings() object.Settings {
	return object.Settings{
		CPUs: c.CPUs, Cores: c.Cores, Stay: c.Stay, DMACores: c.DMACores, Populate: c.Populate,
		PostersStep: c.PostersStep,
		Names:       c.DeviceNames,
		Idle:        object.Idle(c.Idle), Burst: c.Burst, Slice: c.Slice, Limits: object.Limits(c.Limits),
	}
}
