package freeport

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// hold takes a name until release is called or the process ends. It returns false if the name is taken.
func hold(t testing.TB, name string) (release func(), ok bool) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("a socket to hold %s: %v", name, err)
	}
	err = unix.Bind(fd, &unix.SockaddrUnix{Name: "@nicless tests: " + name})
	if err != nil {
		_ = unix.Close(fd)
	}
	if err != nil && !errors.Is(err, unix.EADDRINUSE) {
		t.Fatalf("hold %s: %v", name, err)
	}
	return func() { _ = unix.Close(fd) }, err == nil
}
