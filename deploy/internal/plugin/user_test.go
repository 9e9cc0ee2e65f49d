//go:build linux && (amd64 || arm64)

package plugin

import (
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/nicless/nicless/deploy/internal/engines"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Programs of another user than the engine's use the device, with memory that moves into shared memory.
func TestPodOfAnotherUser(t *testing.T) {
	needsRoot(t)
	n := newNode(t)
	k := startKubelet(t, n.kubelet)
	n.start()
	c := newContainer(t, allocate(t, k.plugin(), "0"))
	c.uid = 1000
	require.Regexp(t, `65536 +1000 +[1-9]`, c.run("sh", "-c", pair))
}

// With engines of the pod's user, the engine reads and writes memory that stays where it is, too.
func TestEngineOfThePodsUser(t *testing.T) {
	needsNamespaces(t)
	n := newNode(t)
	n.user = &engines.User{UID: 1000, GID: 1000}
	k := startKubelet(t, n.kubelet)
	n.start()
	c := newContainer(t, allocate(t, k.plugin(), "0"))
	c.uid, c.host = 1000, true
	c.env = append(c.env, "NICLESS_VERBS_SLOW=1")
	require.Regexp(t, `65536 +1000 +[1-9]`, c.run("sh", "-c", pair))
}

// mayMount reports whether this process may make namespaces without a user namespace (CAP_SYS_ADMIN).
func mayMount(t *testing.T) bool {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^CapEff:\s+([0-9a-f]+)$`).FindSubmatch(text)
	require.Len(t, found, 2)
	have, err := strconv.ParseUint(string(found[1]), 16, 64)
	require.NoError(t, err)
	return have>>unix.CAP_SYS_ADMIN&1 == 1
}

// needsNamespaces skips a test whose containers have the host's user namespace: an engine that is not root
// may not read the memory of programs in another one.
func needsNamespaces(t *testing.T) {
	t.Helper()
	needsRoot(t)
	if !mayMount(t) {
		t.Skip("namespaces without a user namespace take CAP_SYS_ADMIN")
	}
}

// needsRoot skips a test that makes processes of other users.
func needsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root has processes of several users")
	}
}
