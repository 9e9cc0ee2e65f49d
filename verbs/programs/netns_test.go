package programs

import (
	"net"
	"os/exec"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/proctest"
)

// gids returns the GIDs that a program lists, with their versions.
func (l *lab) gids(under ...string) (all []string) {
	l.t.Helper()
	said := start(l.t, l.user, append(under, l.argv("ibv_devinfo", "-v")...)...).succeeds()
	for _, line := range lines(said) {
		if at := regexpGID.FindStringSubmatch(line); at != nil {
			all = append(all, at[1])
		}
	}
	return all
}

// A program sees the addresses of its network namespace. A namespace in which lo is down has a
// global GID all the same, and data moves in it.
func TestGIDsOfTheNamespace(t *testing.T) {
	t.Parallel()
	need(t, "ibv_devinfo")
	isolated := []string{"unshare", "--user", "--map-root-user", "--net"}
	if said, err := exec.Command(isolated[0], append(isolated[1:], "true")...).CombinedOutput(); err != nil {
		proctest.Missing(t, "needs user namespaces: %v %s", err, said)
	}
	l := newLab(t)
	listed, err := net.InterfaceAddrs()
	require.NoError(t, err)
	all := l.gids()
	for _, a := range listed[:min(len(listed), 20)] {
		ip := a.(*net.IPNet).IP
		want := ip.String()
		if ip.To4() != nil {
			want = "::ffff:" + want
		}
		require.True(t, slices.Contains(all, want+", RoCE v2"), "%s is not among %q", want, all)
	}
	require.Equal(t, all, l.gids())

	alone := l.gids(isolated...)
	require.Len(t, alone, 4, "%q", alone)
	require.Regexp(t, `^::ffff:198\.18\.\d+\.\d+, RoCE v2$`, alone[3])
	if *whole {
		start(t, nil, slices.Concat(isolated, l.argv(check(t, "validate"), "threads"))...).succeeds()
	}
	up := append(slices.Clone(isolated), "sh", "-c", `ip link set lo up && exec "$@"`, "sh")
	require.Contains(t, l.gids(up...), "::ffff:127.0.0.1, RoCE v2")
}

var regexpGID = regexp.MustCompile(`GID\[\s*\d+\]:\s*(\S+, RoCE v2|\S+)`)
