//go:build linux

package steady

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/await"
)

func TestParseLoad(t *testing.T) {
	l, err := ParseLoad("busy=4,disk=0", Load{1, 2, 3})
	require.NoError(t, err)
	require.Equal(t, Load{4, 2, 0}, l)
	for _, text := range []string{"cpu=3", "busy", "busy=-1", "busy=x"} {
		_, err = ParseLoad(text, Load{})
		require.ErrorContains(t, err, "busy=N, memory=MIB and disk=MIB", text)
	}
}

// A parent that is killed cannot stop its load. The load ends all the same.
func TestLoadEndsWithItsParent(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	c := exec.Command(self, holder)
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	var pids []int
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "all"; {
		pid, err := strconv.Atoi(lines.Text())
		require.NoError(t, err)
		pids = append(pids, pid)
	}
	require.NoError(t, c.Process.Kill())
	_ = c.Wait()
	require.Len(t, pids, 3)
	await.Until(t, "the load has ended", func() bool {
		for _, pid := range pids {
			if alive(pid) {
				return false
			}
		}
		return true
	})
}

// alive says whether a process exists and has not ended. An orphan may have no parent that waits for it in a
// container.
func alive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	for i := len(stat) - 1; err == nil && i >= 0; i-- {
		if stat[i] == ')' {
			return stat[i+2] != 'Z'
		}
	}
	return false
}

func TestLoadThatEndsIsTold(t *testing.T) {
	told := make(chan error, 1)
	r, err := Load{Busy: 1}.start(func(err error) { told <- err })
	require.NoError(t, err)
	defer r.stop()
	r.signal(syscall.SIGTERM)
	require.ErrorContains(t, await.Receive(t, "the end of the load", told), "the load busy has ended: signal: terminated")
}

func TestLoadThatIsStoppedIsNotTold(t *testing.T) {
	r, err := Load{Busy: 1}.start(func(err error) { t.Error(err) })
	require.NoError(t, err)
	r.stop()
}

func TestNoRoom(t *testing.T) {
	require.ErrorContains(t, Load{Disk: 1 << 40}.Check(), "is full")
	require.ErrorContains(t, Load{Memory: 1 << 40}.Check(), "more than half")
	t.Setenv("TMPDIR", "/nowhere")
	err := Load{}.Check()
	require.ErrorContains(t, err, "/nowhere")
	require.True(t, errors.Is(err, os.ErrNotExist))
}

// A disk that becomes full ends the load, which names it. A limit of the file's size is like that.
func TestDiskBecomesFull(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	c := exec.Command("sh", "-c", `ulimit -f 1; trap "" XFSZ; exec "$0" "$@"`, self, LoadWord, "disk", "8")
	in, err := c.StdinPipe()
	require.NoError(t, err)
	defer func() { _ = in.Close() }()
	said, err := c.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(said), os.TempDir()+": ")
}
