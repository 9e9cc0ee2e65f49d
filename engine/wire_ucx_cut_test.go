package engine

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/fabric/ucx"
	"github.com/nicless/nicless/fabric/ucx/ucxtest"
	"github.com/stretchr/testify/require"
)

// A loopback is a network namespace whose only device is lo. The carriers of a test are in it, so its
// cable can be cut: no packet passes, and no connection is closed.
type loopback struct {
	t      *testing.T
	holder int
}

func newLoopback(t *testing.T) loopback {
	for _, name := range []string{"unshare", "nsenter", "ip"} {
		if _, err := exec.LookPath(name); err != nil {
			unavailable(t, name+" is not installed (Debian: apt install util-linux iproute2)")
		}
	}
	if out, err := exec.Command("unshare", "--user", "--map-root-user", "--net", "true").CombinedOutput(); err != nil {
		unavailable(t, fmt.Sprintf("no network namespaces: %s", out))
	}
	holder := exec.Command("unshare", "--user", "--map-root-user", "--net", "sh", "-c", "ip link set lo up && echo ready && exec sleep 1000")
	out, err := holder.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, holder.Start())
	t.Cleanup(func() {
		_ = holder.Process.Kill()
		_ = holder.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", line)
	return loopback{t, holder.Process.Pid}
}

// unavailable skips the test. In continuous integration it fails then.
func unavailable(t *testing.T, why string) {
	if os.Getenv("CI") != "" {
		t.Fatal(why)
	}
	t.Skip("NOT TESTED: " + why)
}

// program returns a program that runs nicless-ucx in the namespace.
func (l loopback) program() string {
	text, err := os.ReadFile(ucxtest.Program(l.t))
	require.NoError(l.t, err)
	dir := l.t.TempDir()
	real, script := filepath.Join(dir, "real"), filepath.Join(dir, "nicless-ucx")
	require.NoError(l.t, os.WriteFile(real, text, 0o755))
	enter := fmt.Sprintf("#!/bin/sh\nexec nsenter --preserve-credentials --user --net --target %d -- %s \"$@\"\n", l.holder, real)
	require.NoError(l.t, os.WriteFile(script, []byte(enter), 0o755))
	return script
}

// set sets the cable up or down.
func (l loopback) set(state string) {
	out, err := exec.Command("nsenter", "--preserve-credentials", "--user", "--net", "--target", strconv.Itoa(l.holder), "--", "ip", "link", "set", "lo", state).CombinedOutput()
	require.NoError(l.t, err, "%s", out)
}

// The cable of a link is cut and comes back. Queue pairs go on where they were, and each atomic is
// executed once. When it does not come back, they say so after their retries.
func TestUCXCableIsCut(t *testing.T) {
	ucxtest.NeedUCX(t)
	lo := newLoopback(t)
	var ends [2]*ucx.Carrier
	cfg := ucxOver("tcp")
	cfg.Program, cfg.Dead = lo.program(), 300*time.Millisecond
	overCable = func(r *rig) *cable { return r.newUCX(&ends, cfg) }
	defer func() { overCable = nil }()
	r, p, q := duo(t, Config{})
	down := func(end *ucx.Carrier) bool { return !end.Peers()[0].Up }
	write := r.survive(p, q, 2, func(int) { lo.set("down") }, func(int) {
		r.until("both ends notice it", func() bool { return down(ends[0]) && down(ends[1]) })
		lo.set("up")
	})
	r.e.Do(func() { p.q.attr.Timeout, p.q.attr.RetryCount = 14, 2 })
	lo.set("down")
	write()
	require.Equal(t, cqe.TransportRetry, p.scq.await().Syndrome)
}
