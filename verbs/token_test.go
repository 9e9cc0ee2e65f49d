package verbs

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/procmem"
	"github.com/nicless/nicless/internal/unixsock"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// missingPage returns memory whose page is not there: a thread that touches it in the kernel waits until
// arrive is called.
func missingPage(t *testing.T) (page []byte, arrive func()) {
	t.Helper()
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC, 0, 0)
	if errno == unix.EPERM {
		t.Skip("userfaultfd: only root may have faults of the kernel wait")
	}
	require.Zero(t, errno)
	both, err := unix.Mmap(-1, 0, 2*pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	require.NoError(t, err)
	args, page := both[:pageSize], both[pageSize:]
	// UFFDIO_API, UFFDIO_REGISTER.
	for _, call := range [][]uint64{{0xc018aa3f, 0xaa, 0, 0}, {0xc020aa00, procmem.VecOf(page).Addr, pageSize, 1, 0}} {
		copy(args, u64s(call[1:]...))
		_, _, errno = unix.Syscall(unix.SYS_IOCTL, fd, uintptr(call[0]), uintptr(procmem.VecOf(args).Addr))
		require.Zero(t, errno)
	}
	return page, func() { _ = os.NewFile(fd, "userfaultfd").Close() }
}

// A program reads its channel into memory that never arrives. Its read holds the lock of the pipe,
// which writers need too. No other program waits for that.
func TestNobodyWaitsForAChannel(t *testing.T) {
	s := newServing(t)
	a := s.rig(t)
	hostile, theirs, err := s.newCMChannel(a.p.cmProgram())
	require.NoError(t, err)
	page, arrive := missingPage(t)
	read, thread := make(chan struct{}), new(atomic.Int64)
	hostile.Put()
	go func() {
		defer close(read)
		runtime.LockOSThread()
		thread.Store(int64(unix.Gettid()))
		_ = unixsock.Control(theirs, func(fd int) error { _, err := unix.Read(fd, page[:1]); return err })
	}()
	await.Until(t, "it reads", func() bool {
		b, err := os.ReadFile("/proc/self/task/" + strconv.Itoa(int(thread.Load())) + "/wchan")
		return err == nil && strings.Contains(string(b), "userfault")
	})
	told := make(chan struct{})
	go func() {
		defer close(told)
		for range 100 {
			hostile.Put()
		}
		hostile.Take(3)
	}()
	await.Receive(t, "it does not wait for the program", told)
	arrive()
	<-read
	await.Until(t, "the bytes are there", func() bool {
		n := 0
		require.NoError(t, unixsock.Control(theirs, func(fd int) (err error) { n, err = unix.IoctlGetInt(fd, unix.TIOCINQ); return err }))
		return n == 97 || n == 98 // the reader gets a byte, or EFAULT
	})
	_ = theirs.Close()
}
