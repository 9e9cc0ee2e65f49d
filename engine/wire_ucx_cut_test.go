package engine

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/fabric/ucx"
	"github.com/nicless/nicless/fabric/ucx/ucxtest"
	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/require"
)

// alone runs a test again, in a network namespace whose only device is lo: so its cable can be cut. It
// returns false where the test was only started.
func alone(t *testing.T) bool {
	const inside = "NICLESS_TEST_ALONE"
	if os.Getenv(inside) == t.Name() {
		setLoopback(t, "up")
		return true
	}
	for _, name := range []string{"unshare", "ip"} {
		if _, err := exec.LookPath(name); err != nil {
			unavailable(t, name+" is not installed (Debian: apt install util-linux iproute2)")
		}
	}
	if out, err := exec.Command("unshare", "--user", "--map-root-user", "--net", "true").CombinedOutput(); err != nil {
		unavailable(t, fmt.Sprintf("no network namespaces: %s", out))
	}
	c := exec.CommandContext(await.Context(t), "unshare", "--user", "--map-root-user", "--net", os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=0")
	c.Env = append(os.Environ(), inside+"="+t.Name())
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: "+t.Name())
	return false
}

// unavailable skips the test. In continuous integration it fails then.
func unavailable(t *testing.T, why string) {
	if os.Getenv("CI") != "" {
		t.Fatal(why)
	}
	t.Skip("NOT TESTED: " + why)
}

// setLoopback sets the cable up or down: no packet passes, and no connection is closed.
func setLoopback(t *testing.T, state string) {
	out, err := exec.Command("ip", "link", "set", "lo", state).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// The cable of a link is cut and comes back. Queue pairs go on where they were, and each atomic is
// executed once. When it does not come back, they say so after their retries.
func TestUCXCableIsCut(t *testing.T) {
	ucxtest.NeedUCX(t)
	if !alone(t) {
		return
	}
	var ends [2]*ucx.Carrier
	cfg := ucxOver("tcp")
	cfg.Dead = 300 * time.Millisecond
	overCable = func(r *rig) *cable { return r.newUCX(&ends, cfg) }
	defer func() { overCable = nil }()
	r, p, q := duo(t, Config{})
	down := func(end *ucx.Carrier) bool { return !end.Peers()[0].Up }
	write := r.survive(p, q, 2, func(int) { setLoopback(t, "down") }, func(int) {
		r.until("both ends notice it", func() bool { return down(ends[0]) && down(ends[1]) })
		setLoopback(t, "up")
	})
	r.e.Do(func() { p.q.Attr.Timeout, p.q.Attr.RetryCount = 14, 2 })
	setLoopback(t, "down")
	write()
	require.Equal(t, cqe.TransportRetry, p.scq.await().Syndrome)
}
