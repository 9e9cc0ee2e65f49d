// Package ucxtest builds the program nicless-ucx for tests.
package ucxtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// open keeps the files of programs, which are removed once they are built: no test has to clean up.
var open []*os.File

// build runs make in a directory, and returns paths to the programs that it has made. They are valid as
// long as this process lives.
func build(in, out string, programs ...string) (paths []string, err error) {
	dir, err := os.MkdirTemp("", "nicless-ucx-test")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	make := exec.Command("make", "-s", "-j2", "-C", in, "OUT="+filepath.Join(dir, out))
	if said, err := make.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w", said, err)
	}
	for _, name := range programs {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		open = append(open, f)
		paths = append(paths, fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd()))
	}
	return paths, nil
}

var carrier = sync.OnceValues(func() ([]string, error) {
	return build(Sources(), "nicless-ucx", "nicless-ucx")
})

var checks = sync.OnceValues(func() ([]string, error) {
	return build(filepath.Join(Sources(), "check"), "", "ring", "stranger", "seal")
})

// Sources returns the directory of the program's sources.
func Sources() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "../carrier")
}

// Program builds the program, once, and returns a path that is valid as long as this process lives.
func Program(t testing.TB) string {
	t.Helper()
	paths, err := carrier()
	if err != nil {
		t.Fatal(err)
	}
	return paths[0]
}

// Checks builds the programs of carrier/check, once, and returns their paths.
func Checks(t testing.TB) (ring, stranger, seal string) {
	t.Helper()
	paths, err := checks()
	if err != nil {
		t.Fatal(err)
	}
	return paths[0], paths[1], paths[2]
}

// NeedUCX skips the test if libucp is not installed. In continuous integration it fails then.
func NeedUCX(t testing.TB) {
	t.Helper()
	dirs := []string{"/usr/lib/*-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib", "/lib64"}
	for _, dir := range dirs {
		if found, _ := filepath.Glob(dir + "/libucp.so.0"); len(found) > 0 {
			return
		}
	}
	out, _ := exec.Command("ldconfig", "-p").Output()
	switch {
	case strings.Contains(string(out), "libucp.so.0"):
	case os.Getenv("CI") != "":
		t.Fatal("libucp.so.0 is not installed (Debian: apt install libucx0)")
	default:
		t.Skip("NOT TESTED: libucp.so.0 is not installed (Debian: apt install libucx0)")
	}
}
