//go:build unix

package proctest

import (
	"fmt"
	"io"
	"os/exec"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// The keeper is a shell that kills all process groups it knows when its input ends, and with it this
// process, however that is. Pdeathsig would not do: the kernel drops it when a process enters a user
// namespace, and its children do not inherit it.
const keeper = `groups=" "
while read -r what group; do
	case $what in
	began) groups="$groups$group " ;;
	ended) groups="${groups%%" $group "*} ${groups#*" $group "}" ;;
	esac
done
for group in $groups; do kill -KILL "-$group"; done`

// startKeeper starts the keeper of this process. It is in a group of its own, so that a signal for the group
// of the test does not kill it.
var startKeeper = sync.OnceValues(func() (io.Writer, error) {
	cmd := exec.Command("sh", "-c", keeper)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	return in, cmd.Start()
})

// Keep has a process group killed if this process ends before the test does: a test that is killed, or takes
// longer than go test allows, leaves nothing behind.
func Keep(t testing.TB, group int) {
	t.Helper()
	to, err := startKeeper()
	require.NoError(t, err)
	_, err = fmt.Fprintln(to, "began", group)
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = fmt.Fprintln(to, "ended", group) })
}
