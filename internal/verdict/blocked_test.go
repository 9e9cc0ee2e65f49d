//go:build linux

package verdict

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A thread in uninterruptible sleep is seen, and for about as long as it was there. This one has started a
// process that shares its memory and that the kernel does not let open its program, because of a lease on
// that file.
func TestBlockedThreadIsSeen(t *testing.T) {
	signal.Ignore(syscall.SIGIO) // the kernel requests the lease by this signal
	defer signal.Reset(syscall.SIGIO)
	path := filepath.Join(t.TempDir(), "program")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/true\n"), 0o755))
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skip("no lease on a file here: ", err)
	}
	w := NewWitness(1, func() []int { return []int{os.Getpid()} })
	defer w.Close()
	m := w.Begin()
	ended := make(chan error, 1)
	go func() { ended <- exec.Command(path).Run() }()
	const enough = 60 * time.Millisecond
	await.Until(t, "a blocked thread is seen", func() bool { return w.Since(m).Engine.Blocked > enough })
	_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
	require.NoError(t, err)
	_ = await.Receive(t, "the process ends", ended)
	e := w.Since(m)
	require.GreaterOrEqual(t, e.Engine.Blocked, enough)
	require.LessOrEqual(t, e.Engine.Blocked, e.Took)
	require.NotEmpty(t, e.Engine.In)
	w.Rest()
}

func TestState(t *testing.T) {
	require.EqualValues(t, 'D', state([]byte("5 (a ) b (c)) D 17 5")))
	require.Zero(t, state(nil))
	require.Zero(t, state([]byte("5 (a")))
}

// Those who count the descriptors of a process do not count those of the sampling.
func TestQuiet(t *testing.T) {
	w := NewWitness(1, func() []int { return []int{os.Getpid()} })
	defer w.Close()
	w.Begin()
	own := "/proc/" + strconv.Itoa(os.Getpid()) + "/task"
	sampled := func() (is bool) {
		list, _ := os.ReadDir("/proc/self/fd")
		for _, e := range list {
			target, _ := os.Readlink("/proc/self/fd/" + e.Name())
			is = is || strings.HasPrefix(target, own)
		}
		return is
	}
	await.Until(t, "the sampling has a file open", sampled)
	for range 1000 {
		w.Quiet(func() { require.False(t, sampled()) })
	}
	w.Rest()
}
