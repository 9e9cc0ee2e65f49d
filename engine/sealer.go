package engine

import (
	"os"
	"os/exec"

	"github.com/nicless/nicless/internal/shm"
	"golang.org/x/sys/unix"
)

// A client may go before it has sealed memory that the device made for it: it was
// killed. Whoever unmaps memory that can lose pages waits for a hole that is being
// punched, and all of the process with it, so the memory is sealed first. To seal it
// waits as well, for whoever has the inode's lock, and that can be a client that writes
// there from a page which never comes: no signal ends such a wait. So another process
// does it, which has nothing of the device's but that one descriptor: if it hangs, it
// hangs alone, and the device can end.

// sealVariable in the environment makes a process of this program one that seals its
// descriptor 3 and ends.
const sealVariable = "NICLESS_SEAL_AND_EXIT"

func init() {
	if os.Getenv(sealVariable) == "" {
		return
	}
	const seals = unix.F_SEAL_FUTURE_WRITE | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(3, unix.F_ADD_SEALS, seals); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// sealApart has another process seal memory, and waits for it. It reports whether the
// memory is sealed now, by whomever.
func sealApart(r *shm.Region) bool {
	f := r.File()
	if f == nil || r.Sealed() {
		return r.Sealed()
	}
	c := exec.Command("/proc/self/exe")
	c.Env = []string{sealVariable + "=1"}
	c.ExtraFiles = []*os.File{f}
	_ = c.Run() // the seals say what has become of it
	return r.Sealed()
}
