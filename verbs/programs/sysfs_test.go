package programs

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Programs and scripts that look for devices in /sys find what the kernel would have there.
func TestSysfs(t *testing.T) {
	t.Parallel()
	need(t, "ibstat", "ibstatus")
	l := newLab(t)
	require.Contains(t, l.run("ibstat"), "CA 'nicless0'")
	// It changes its working directory.
	require.Regexp(t, `Infiniband device 'nicless0' port 1 status:\n\tdefault gid:\t fe80:`, l.run("ibstatus"))
	for command, want := range map[string]string{
		"ls -l /sys/class/infiniband/":                                 `nicless0 -> ../../devices/pci0000:00/`,
		"ls -l /dev/infiniband/":                                       `^total 0\ncrw-rw-rw- .* 10, +\d+ .* rdma_cm\ncrw-rw-rw- .* 231, +0 .* umad0\ncrw-rw-rw- .* 231, 192 .* uverbs0\n$`,
		"realpath /sys/class/infiniband/nicless0/device":               `^/sys/devices/pci0000:00/0000:00:\S+/0000:..:00\.0\n$`,
		"cat /sys/class/infiniband/nicless0/device/../class":           `^0x060400\n$`,
		"cd /sys/class/infiniband/nicless0/device && /bin/pwd":         `^/sys/devices/pci0000:00/0000:00:\S+/0000:..:00\.0\n$`,
		"cd /sys/class && ls infiniband":                               `^nicless0\n$`,
		"cat $(realpath /sys/class/infiniband/nicless0/device)/device": `^0x1019\n$`,
		"find /sys/class/infiniband/ -name nicless0":                   `^/sys/class/infiniband/nicless0\n$`,
		"ls -d /sys/class/net/lo /sys/bus/pci 2>&1; true":              `/sys/class/net/lo`,
	} {
		require.Regexp(t, want, l.run("sh", "-c", command), command)
	}
}

// Libraries with memory hooks of their own map the device too (docs/design/0026-mmap-hooks.md).
func TestMemoryHooks(t *testing.T) {
	t.Parallel()
	need(t, "ucx_info")
	for _, mode := range []string{"bistro", "none"} {
		t.Run(mode, func(t *testing.T) {
			said := newLab(t).run("env", "UCX_MEM_MMAP_HOOK_MODE="+mode, "ucx_info", "-d")
			for _, transport := range []string{"rc_verbs", "ud_verbs", "rc_mlx5", "ud_mlx5"} {
				require.Contains(t, said, "Transport: "+transport)
			}
			require.False(t, strings.Contains(said, "ERROR"), said)
		})
	}
}
