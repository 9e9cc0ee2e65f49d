package verbs

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/stretchr/testify/require"
)

// A program, which check/events.c is, gets the events that rules of faults cause, with their objects.
func TestEventsOfRules(t *testing.T) {
	dir, e := servingEngine(t, 1)
	owner, err := nic.Of(e).AttachLocal("owner", nil)
	require.NoError(t, err)
	defer owner.Close()
	shim, program := library(t), filepath.Join(t.TempDir(), "events")
	if _, err := os.Stat("/usr/include/infiniband/verbs.h"); err != nil {
		missing(t, "the headers of libibverbs are not installed (Debian: apt install libibverbs-dev): %v", err)
	}
	out, err := exec.Command("cc", "-std=c99", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-o", program,
		"check/events.c", "check/check.c", "-libverbs", "-pthread").CombinedOutput()
	require.NoError(t, err, "%s", out)

	c := exec.CommandContext(await.Context(t), program)
	c.Env = append(os.Environ(), "LD_PRELOAD="+shim, "NICLESS_VERBS="+dir)
	var trouble strings.Builder
	c.Stderr = &trouble
	said, err := c.StdoutPipe()
	require.NoError(t, err)
	answers, err := c.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	last := ""
	for lines := bufio.NewScanner(said); lines.Scan(); {
		last = lines.Text()
		action := fmt.Sprintf(`"subnet": %q`, last)
		switch last {
		case "send", "receive":
			action = fmt.Sprintf(`"unreadable": %q`, last)
		case "events: 6 kinds: ok":
			continue
		}
		rules := fmt.Sprintf(`{"rules": [{%s}]}`, action)
		_, _, err := owner.Call(control.OpSetFaults, body(control.OpSetFaults,
			&control.Faults{Total: uint32(len(rules)), Text: rules}))
		require.NoError(t, err)
		_, err = fmt.Fprintln(answers)
		require.NoError(t, err)
	}
	require.NoError(t, c.Wait(), "after %q: %s", last, trouble.String())
	require.Equal(t, "events: 6 kinds: ok", last)
}
