//go:build linux && (amd64 || arm64)

package plugin

import (
	"fmt"

	"tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/pkg/parser"
	specs "tags.cncf.io/container-device-interface/specs-go"
)

// writeSpec writes the CDI specification of all devices, if Config.CDI names a directory. It stays when the
// plugin ends, because containers may start meanwhile.
func (c *Config) writeSpec() error {
	if c.CDI == "" {
		return nil
	}
	spec := &specs.Spec{Kind: c.Resource}
	devices, _ := c.Pool.Devices()
	for _, d := range devices {
		list, err := mounts(c.Pool, d.ID)
		if err != nil {
			return err
		}
		device := specs.Device{Name: d.ID}
		for _, m := range list {
			edits := &device.ContainerEdits
			edits.Mounts = append(edits.Mounts, &specs.Mount{HostPath: m.host, ContainerPath: m.container,
				Options: []string{"ro", "nosuid", "nodev", "bind"}})
		}
		spec.Devices = append(spec.Devices, device)
	}
	env := environment()
	for _, name := range names(env) {
		spec.ContainerEdits.Env = append(spec.ContainerEdits.Env, name+"="+env[name])
	}
	version, err := specs.MinimumRequiredVersion(spec)
	if err != nil {
		return fmt.Errorf("CDI specification: %w", err)
	}
	spec.Version = version
	cache, err := cdi.NewCache(cdi.WithSpecDirs(c.CDI), cdi.WithAutoRefresh(false))
	if err != nil {
		return fmt.Errorf("CDI directory %s: %w", c.CDI, err)
	}
	vendor, class := parser.ParseQualifier(c.Resource)
	if err := cache.WriteSpec(spec, cdi.GenerateSpecName(vendor, class)); err != nil {
		return fmt.Errorf("CDI specification in %s: %w", c.CDI, err)
	}
	return nil
}
