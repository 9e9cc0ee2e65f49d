package verbs

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/nic"
	"github.com/stretchr/testify/require"
)

// A program, which check/port.c is, sees its port go down and come back, and its GID change: by events, by
// ibv_query_port, below /sys, and by what becomes of its work requests.
func TestPortOfAProgram(t *testing.T) {
	dir, e := servingEngine(t, 2)
	shim, program := library(t), filepath.Join(t.TempDir(), "port")
	if _, err := os.Stat("/usr/include/infiniband/verbs.h"); err != nil {
		missing(t, "the headers of libibverbs are not installed (Debian: apt install libibverbs-dev): %v", err)
	}
	out, err := exec.Command("cc", "-std=c99", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-o", program,
		"check/port.c", "check/check.c", "-libverbs", "-pthread").CombinedOutput()
	require.NoError(t, err, "%s", out)

	c := exec.CommandContext(await.Context(t), program)
	c.Env = append(os.Environ(), "LD_PRELOAD="+shim, "NICLESS_VERBS="+dir)
	var trouble strings.Builder
	c.Stderr = &trouble
	said, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	d, last := nic.Of(e), ""
	for lines := bufio.NewScanner(said); lines.Scan(); {
		last = lines.Text()
		switch last {
		case "down", "up":
			d.SetPort(1, last == "up") // another device, of which the program hears nothing
			d.SetPort(0, last == "up")
		case "gid":
			d.ChangeGID(0)
		}
	}
	require.NoError(t, c.Wait(), "after %q: %s", last, trouble.String())
	require.Equal(t, "port: 2 outages, 1 change of the GID: ok", last)
	require.Equal(t, nic.PortState{Changes: 1}, d.PortState(0))
}

// A program that begins while a port is down finds that below /sys, although no context has heard of it.
func TestPortIsDownBeforeAProgramBegins(t *testing.T) {
	dir, e := servingEngine(t, 1)
	nic.Of(e).SetPort(0, false)
	shim := library(t)
	for _, up := range []bool{false, true} {
		nic.Of(e).SetPort(0, up)
		c := exec.CommandContext(await.Context(t), "cat", "/sys/class/infiniband/nicless0/ports/1/state",
			"/sys/class/infiniband/nicless0/ports/1/phys_state")
		c.Env = append(os.Environ(), "LD_PRELOAD="+shim, "NICLESS_VERBS="+dir)
		out, err := c.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Equal(t, map[bool]string{false: "1: DOWN\n3: Disabled\n", true: "4: ACTIVE\n5: LinkUp\n"}[up], string(out))
	}
}

// Changes of the GID give no device a GID that another device of the server has, and change both GIDs.
func TestGIDsOfPorts(t *testing.T) {
	s := newServing(t)
	s.devices = nil
	states := make([]nic.PortState, MaxDevices)
	for i := range states {
		d := newDevice(uint32(i), nic.DefaultNames.Of(uint8(i)), 0x5a4e4cfffe000020, pciPlace{})
		d.port = func() nic.PortState { return states[i] }
		s.devices = append(s.devices, d)
	}
	seen := make(map[[gidSize]byte]bool)
	for changes := range uint32(100) {
		for i, d := range s.devices {
			states[i].Changes = changes
			for _, g := range [][gidSize]byte{d.linkLocal(), d.global()} {
				require.False(t, seen[g], "%s of device %d", gidText(g), i)
				seen[g] = true
			}
			require.Equal(t, []byte{198, 18}, []byte{d.global()[12], d.global()[13] &^ 1}, "of RFC 2544")
		}
	}
}
