//go:build linux && (amd64 || arm64)

// Package scratch makes directories for runs of tests that may be killed at any moment. The next run removes
// what a killed one has left.
package scratch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// prefix is how the names of all these directories begin.
const prefix = "nicless-torture-run-"

// young is the age at which a directory may have no lock yet.
const young = time.Minute

// Make makes a directory in another one, and removes those of runs that were killed. The lock on a directory
// ends with the process that holds it, so it shows whether the run goes on; process ids do not, because
// containers may share the directory.
func Make(in string) (dir string, remove func(), err error) {
	removeOld(in)
	if dir, err = os.MkdirTemp(in, prefix); err != nil {
		return "", nil, fmt.Errorf("torture: a directory for sockets: %w", err)
	}
	f, err := os.Open(dir)
	if err == nil {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("torture: lock a directory: %w", err), os.RemoveAll(dir))
	}
	return dir, func() {
		_ = os.RemoveAll(dir)
		_ = f.Close()
	}, nil
}

func removeOld(in string) {
	list, _ := filepath.Glob(filepath.Join(in, prefix+"*"))
	for _, dir := range list {
		// Any user may make something of that name: opening a FIFO would wait for its writer.
		f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if err != nil {
			continue // it is another user's, or no directory
		}
		st, err := f.Stat()
		if err == nil && time.Since(st.ModTime()) > young &&
			unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = os.RemoveAll(dir)
		}
		_ = f.Close()
	}
}
