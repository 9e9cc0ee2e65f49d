//go:build linux

package proctest

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nicless/nicless/internal/await"
)

const childMark = "NICLESS_PROCTEST_CHILD"

// A test that is killed in the middle leaves no processes behind, grandchildren in a user namespace included.
func TestKilledTestLeavesNothing(t *testing.T) {
	if os.Getenv(childMark) != "" {
		startAndHang(t)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), childMark+"=1")
	said := &Output{}
	cmd.Stdout, cmd.Stderr = said, said
	require.NoError(t, cmd.Start())
	var group int
	Until(t, "the child has started its own", func() bool {
		_, rest, _ := strings.Cut(said.String(), "group ")
		line, _, whole := strings.Cut(rest, "\n")
		group, _ = strconv.Atoi(line)
		return whole && group > 0 && strings.Contains(said.String(), "grandchild")
	}, Job{Name: "the child", PID: cmd.Process.Pid, Output: said})
	require.NoError(t, unix.Kill(-group, 0), "it runs")
	require.NoError(t, cmd.Process.Kill())
	await.Until(t, "the group is gone", func() bool { return unix.Kill(-group, 0) == unix.ESRCH })
	_ = cmd.Wait()
}

func startAndHang(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sh -c 'echo grandchild; exec sleep 1000' & sleep 1000")
	cmd.Stdout = os.Stdout
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, cmd.Start())
	Keep(t, cmd.Process.Pid)
	fmt.Println("group", cmd.Process.Pid)
	select {}
}

// A group that has ended is removed.
func TestKeeperForgets(t *testing.T) {
	in := strings.NewReader("began 11\nbegan 12\nbegan 13\nended 12\nended 13\nbegan 14\n")
	cmd := exec.Command("sh", "-c", strings.Replace(keeper, `kill -KILL "-$group"`, `echo "kill $group"`, 1))
	cmd.Stdin = in
	said, err := cmd.Output()
	require.NoError(t, err)
	require.Equal(t, "kill 11\nkill 14\n", string(said))
}

func TestProgressOfAJob(t *testing.T) {
	said := &Output{}
	j := Job{Name: "a program", Output: said}
	state := j.progress()
	before := state()
	require.Equal(t, before, state())
	_, _ = said.Write([]byte("more"))
	require.NotEqual(t, before, state())
	require.Contains(t, j.String(), "a program said:\nmore")
	require.Contains(t, Job{Name: "this one", PID: os.Getpid(), Output: said}.String(), "on a core")
}
