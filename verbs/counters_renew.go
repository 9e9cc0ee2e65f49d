//go:build linux && (amd64 || arm64)

package verbs

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nicless/nicless/internal/nic"
	"golang.org/x/sys/unix"
)

// Programs without the shim read the files of the tree DIR/sys themselves: node_exporter with
// --path.sysfs=DIR/sys, for example. The server renews the files of counters there as long as somebody looks
// at them. If nobody does, it does nothing: the kernel reports the first look (inotify). Looks are counted at
// most once in renewTime, so that a reader that never stops costs no more than any other.

const (
	renewTime = 250 * time.Millisecond // between two renewals
	keepTime  = 2 * time.Minute        // how long after a look files are renewed: more than monitors pause
)

// countersIn is in the path of each file of a counter.
const countersIn = "counters/"

// modeOf returns the permission bits of a file of a tree.
func modeOf(path string) fs.FileMode {
	if strings.Contains(path, countersIn) {
		return 0o444
	}
	return 0o644
}

// renewCounters begins to renew the files of counters. The function that it returns ends that.
func (s *Server) renewCounters() (end func()) {
	looks, err := s.watchCounters()
	if err != nil {
		s.report(nic.UnknownUser, nil, slog.LevelWarn, "verbs files of counters are not renewed", "error", err)
		return func() {}
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		s.renewWhileLooked(looks, stop)
	}()
	return func() {
		close(stop)
		_ = looks.Close()
		<-stopped
	}
}

// watchCounters returns a file in which the kernel reports each look at a port of the tree DIR/sys.
func (s *Server) watchCounters() (*os.File, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("inotify: %w", err)
	}
	for _, d := range s.devices {
		port := filepath.Join(s.dir, treeName, d.ibDir(), "ports/1")
		for _, below := range []string{"", "counters", "hw_counters"} {
			dir := filepath.Join(port, below)
			if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_OPEN|unix.IN_ONLYDIR); err != nil {
				_ = unix.Close(fd)
				return nil, fmt.Errorf("inotify: %s: %w", dir, err)
			}
		}
	}
	return os.NewFile(uintptr(fd), "inotify"), nil
}

// renewWhileLooked renews the files after each look, until stop is closed.
func (s *Server) renewWhileLooked(looks *os.File, stop <-chan struct{}) {
	var until, deadline time.Time // without a deadline, the next look is waited for
	events := make([]byte, 16<<10)
	for {
		_ = looks.SetReadDeadline(deadline)
		_, err := looks.Read(events)
		switch {
		case err == nil:
			until = time.Now().Add(keepTime)
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return // closed
		}
		if err := s.renewTree(s.nowhere); err != nil {
			s.report(nic.UnknownUser, nil, slog.LevelWarn, "verbs files of counters not written", "error", err)
		}
		select {
		case <-stop:
			return
		case <-time.After(renewTime):
		}
		deadline = time.Time{}
		if now := time.Now(); now.Before(until) {
			deadline = now.Add(time.Millisecond) // only looks that have been reported already count
		}
	}
}
