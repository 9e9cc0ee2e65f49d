package programs

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A program of Debian's that waits for events hears of addresses that come and go, as soon as they do, and
// of each change once, although other programs look meanwhile.
func TestAddressesAreEvents(t *testing.T) {
	t.Parallel()
	need(t, "ibv_asyncwatch", "ibv_devinfo", "stdbuf", "ip")
	l := &lab{t: t, inside: newNamespace(t)}
	l.open()
	p := l.start("stdbuf", "-oL", "ibv_asyncwatch")
	p.says("async event FD")
	const event = "event_type IBV_EVENT_GID_CHANGE (18), port 1\n"
	for i, do := range []string{"add", "del", "add", "del"} {
		ip := append(append([]string(nil), l.inside...), "ip", "addr", do, "192.0.2.77/24", "dev", "lo")
		out, err := exec.Command(ip[0], ip[1:]...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		p.awaits("an event after ip addr "+do, func() bool { return strings.Count(p.said.String(), event) > i })
		shown := l.run("ibv_devinfo", "-v")
		require.Equal(t, do == "add", strings.Contains(shown, "192.0.2.77"), shown)
		require.Equal(t, i+1, strings.Count(p.said.String(), event))
	}
}
