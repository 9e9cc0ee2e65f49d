package mapholder

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Processes of this test: a process that has a holder, and the program that this process
// executes when it has read a line from its standard input.
const (
	childVariable = "NICLESS_TEST_HAS_A_HOLDER"
	otherVariable = "NICLESS_TEST_HAD_A_HOLDER"
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(otherVariable) != "":
		fmt.Println("another program")
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	case os.Getenv(childVariable) == "":
		os.Exit(m.Run())
	}
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, unix.SIGHUP) // Go has a handler for it now
	fmt.Println(Start(), Start(), mapLate())
	line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	if line != "" { // execute another program
		fmt.Println(unix.Exec("/proc/self/exe", os.Args, []string{otherVariable + "=1"}))
	}
}

// late is the name of memory that the process maps after it has started its holder.
const late = "mapped-late"

func mapLate() error {
	fd, err := unix.MemfdCreate(late, 0)
	if err != nil {
		return err
	}
	if err := unix.Ftruncate(fd, 1<<20); err != nil {
		return err
	}
	b, err := unix.Mmap(fd, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	b[0] = 1
	return nil
}

// mapsLate checks that the memory map of a process has memory with the name that late holds.
func mapsLate(t *testing.T, pid int) {
	t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	require.NoError(t, err)
	require.Contains(t, string(maps), "/memfd:"+late)
}

// child starts a process that has a holder, and returns both.
func child(t *testing.T) (c *exec.Cmd, holder int, end func()) {
	t.Helper()
	c, holder, in, _ := talk(t)
	return c, holder, func() { _ = in.Close() }
}

// talk is like child, and also returns the standard input and output of the process.
func talk(t *testing.T) (c *exec.Cmd, holder int, in io.WriteCloser, said *bufio.Reader) {
	t.Helper()
	c = exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), childVariable+"=1")
	in, err := c.StdinPipe()
	require.NoError(t, err)
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	t.Cleanup(func() { _ = c.Process.Kill() })
	said = bufio.NewReader(out)
	line, err := said.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "<nil> <nil> <nil>\n", line)
	holders := holdersOf(t, c.Process.Pid)
	require.Len(t, holders, 1)
	return c, holders[0], in, said
}

// holdersOf returns the children of a process that have the holder's name.
func holdersOf(t *testing.T, parent int) (pids []int) {
	t.Helper()
	dir, err := os.ReadDir("/proc")
	require.NoError(t, err)
	for _, d := range dir {
		pid, err := strconv.Atoi(d.Name())
		if err != nil {
			continue
		}
		if s := status(pid); s["PPid"] == strconv.Itoa(parent) && s["Name"] == Name {
			pids = append(pids, pid)
		}
	}
	return pids
}

// status returns the rows of /proc/PID/status; there are none if the process is gone.
func status(pid int) map[string]string {
	rows := make(map[string]string)
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(line, ":")
		rows[name] = strings.TrimSpace(value)
	}
	return rows
}

func gone(t *testing.T, pid int) {
	t.Helper()
	await.Until(t, "the process is gone", func() bool {
		s := status(pid)["State"]
		return s == "" || strings.HasPrefix(s, "Z") || strings.HasPrefix(s, "X")
	})
}

// The holder shares only the memory map of its process. It has no descriptor that would keep a
// socket or a lock after the process has ended, and no signal of the process reaches it.
func TestHolderSharesMemoryOnly(t *testing.T) {
	c, holder, _ := child(t)
	mapsLate(t, holder)
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", holder))
	require.NoError(t, err)
	require.Len(t, fds, 1)
	what, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", holder, fds[0].Name()))
	require.NoError(t, err)
	require.Regexp(t, `^pipe:`, what)
	require.NoError(t, unix.Kill(holder, unix.SIGHUP))
	require.NoError(t, unix.Kill(holder, unix.SIGTERM))
	require.Equal(t, "1", status(holder)["Threads"])
	require.Equal(t, "2", status(holder)["Seccomp"], "a filter")
	require.Equal(t, "1", status(holder)["NoNewPrivs"])
	session, err := unix.Getsid(holder)
	require.NoError(t, err)
	require.Equal(t, holder, session, "no signal to the process's group reaches it")
	blocked, err := strconv.ParseUint(status(holder)["SigBlk"], 16, 64)
	require.NoError(t, err)
	const possible = ^uint64(1<<(unix.SIGKILL-1) | 1<<(unix.SIGSTOP-1))
	require.Equal(t, possible, blocked)
	require.Equal(t, strconv.Itoa(c.Process.Pid), status(holder)["PPid"], "the process goes on")
}

// The holder ends however its process ends.
func TestHolderEndsWithItsProcess(t *testing.T) {
	for name, kill := range map[string]func(*exec.Cmd, func()) error{
		"killed":  func(c *exec.Cmd, _ func()) error { return c.Process.Kill() },
		"exits":   func(_ *exec.Cmd, end func()) error { end(); return nil },
		"aborted": func(c *exec.Cmd, _ func()) error { return c.Process.Signal(unix.SIGABRT) },
	} {
		t.Run(name, func(t *testing.T) {
			c, holder, end := child(t)
			require.NoError(t, kill(c, end))
			_ = c.Wait()
			gone(t, holder)
		})
	}
}

// The holder ends too if its process executes another program.
func TestHolderEndsWithItsProgram(t *testing.T) {
	_, holder, in, said := talk(t)
	_, err := in.Write([]byte("another\n"))
	require.NoError(t, err)
	line, err := said.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "another program\n", line)
	gone(t, holder)
}

// When the holder ends, its process goes on, and Start starts a new holder.
func TestHolderIsReplaced(t *testing.T) {
	require.NoError(t, Start())
	was := holder
	require.NoError(t, Start())
	require.Equal(t, was, holder)
	require.NoError(t, unix.Kill(was, unix.SIGKILL))
	await.Until(t, "there is a new holder", func() bool {
		require.NoError(t, Start())
		return holder != was
	})
	require.Empty(t, status(was), "not even a zombie")
	require.Equal(t, []int{holder}, holdersOf(t, os.Getpid()))
}

// Start may be called concurrently.
func TestStartIsSafe(t *testing.T) {
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() { assert.NoError(t, Start()) })
	}
	all.Wait()
	require.Len(t, holdersOf(t, os.Getpid()), 1)
}

// This is the purpose of the holder: a killed process has ended although its memory is still
// mapped. The test traces the holder and stops it before it unmaps the memory. A hole that is
// being punched would stop it at the same point.
func TestProcessEndsBeforeItsMemory(t *testing.T) {
	c, holder, _ := child(t)
	stuck := trace(t, holder)
	require.NoError(t, c.Process.Kill())
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	defer stuck()
	_ = await.Receive(t, "the process ends while the holder is stopped", ended)
}
