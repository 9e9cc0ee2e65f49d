package pool

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A systemAlarm is a timer of the kernel, as a descriptor (timerfd) that the Go runtime polls. It is never
// read: the poller reports each time that the timer runs out, and setting it takes back that it has.
type systemAlarm struct {
	file *os.File
	raw  syscall.RawConn
}

// newSystemAlarm returns nil if the kernel or the runtime has no such timer.
func newSystemAlarm() *systemAlarm {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil
	}
	s := &systemAlarm{file: os.NewFile(uintptr(fd), "nicless:alarm")}
	s.raw, err = s.file.SyscallConn()
	if err != nil {
		s.close()
		return nil
	}
	return s
}

// soon is the shortest time that a timer can be set to; 0 would stop it.
const soon = time.Nanosecond

// set sets the timer. It never waits, so the runtime need not know of the system call.
func set(fd uintptr, d time.Duration) error {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(d, soon)))}
	return unix.TimerfdSettime(int(fd), 0, &spec, nil)
}

// ring ends wait, which is to see that by over, or by the timer that this function sets after it.
func (s *systemAlarm) ring() {
	_ = s.raw.Control(func(fd uintptr) { _ = set(fd, soon) })
}

// wait waits for the time d or for ring, unless it is over before. It sets the timer before it calls over: so
// a ring before that call makes over true, and one after it sets the timer anew. Both come after the runtime
// has begun to wait for the descriptor, so no event is lost.
func (s *systemAlarm) wait(d time.Duration, over func() bool) (err error) {
	waited := false
	wait := s.raw.Read(func(fd uintptr) bool {
		if waited {
			return true
		}
		waited = true
		err = set(fd, d)
		return err != nil || over()
	})
	if err == nil {
		err = wait
	}
	return err
}

func (s *systemAlarm) close() { _ = s.file.Close() }
