package programs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// progress matches the lines that ucx_perftest prints each second.
var progress = regexp.MustCompile(`(?m)^\[thread 0\]\s+\d+\s`)

// UCX survives a port that goes down under its traffic and comes up again: its reliable queue pairs retry for
// longer than the outage lasts. It hears of both events, and goes on.
func TestUCXSurvivesAnOutage(t *testing.T) {
	t.Parallel()
	need(t, "ucx_perftest")
	rules := filepath.Join(t.TempDir(), "outage.yaml")
	require.NoError(t, os.WriteFile(rules, []byte("rules: [{name: cable, port: {down: 300ms}}]\n"), 0o600))
	for _, transport := range []string{"rc_v", "rc_x", "dc_x"} {
		t.Run(transport, func(t *testing.T) {
			l := newLab(t)
			server, client := l.startPair("env", "UCX_TLS="+transport, "UCX_NET_DEVICES=nicless0:1", "UCX_LOG_LEVEL=diag",
				"ucx_perftest", "-t", "tag_lat", "-s", "8", "-n", "1000000000", "-w", "1")
			client.until(progress.MatchString)
			fault := start(t, l.user, binary, "fault", "--socket", l.socket, "--for", "400ms", rules).succeeds()
			require.Contains(t, fault, "cable")
			client.until(func(said string) bool {
				_, said, down := strings.Cut(said, "IB Async event on nicless0: port error on port 1")
				_, said, up := strings.Cut(said, "IB Async event on nicless0: port active on port 1")
				return down && up && progress.MatchString(said)
			})
			for _, p := range []*process{client, server} {
				p.kill()
			}
		})
	}
}
