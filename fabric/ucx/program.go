//go:build linux && (amd64 || arm64)

package ucx

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const programName = "nicless-ucx"

// HasProgram returns nil if an engine of this command finds the program nicless-ucx, without which no link of
// UCX opens. libucp may be missing.
func HasProgram() error {
	_, release, err := findProgram("")
	release()
	return err
}

// findProgram finds the program: what the configuration or NICLESS_UCX names, a file beside
// this command or in ../lib, or what is inside this command. close is called when no process
// will be started any more.
func findProgram(named string) (path string, close func(), err error) {
	close = func() {}
	if named == "" {
		named = os.Getenv("NICLESS_UCX")
	}
	if named != "" {
		if _, err := os.Stat(named); err != nil {
			return "", close, fmt.Errorf("ucx: the program %s: %w", programName, err)
		}
		return named, close, nil
	}
	self, err := os.Executable()
	if err != nil {
		return "", close, err
	}
	if real, err := filepath.EvalSymlinks(self); err == nil {
		self = real
	}
	bin := filepath.Dir(self)
	for _, dir := range []string{bin, filepath.Join(bin, "../lib")} {
		path := filepath.Join(dir, programName)
		if _, err := os.Stat(path); err == nil {
			return path, close, nil
		}
	}
	if len(program) == 0 {
		return "", close, fmt.Errorf("ucx: there is no program %s beside this command, which carries packets over UCX; `make ucx` builds it, and NICLESS_UCX=PATH names it", programName)
	}
	fd, err := unix.MemfdCreate(programName, unix.MFD_CLOEXEC)
	if err != nil {
		return "", close, fmt.Errorf("ucx: memory for the program: %w", err)
	}
	f := os.NewFile(uintptr(fd), programName)
	if _, err := f.Write(program); err != nil {
		_ = f.Close()
		return "", close, fmt.Errorf("ucx: memory for the program: %w", err)
	}
	// A file that is open for writing cannot be executed. The path names this process,
	// because a child's own descriptors may have other numbers by then.
	reading, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", fd))
	_ = f.Close()
	if err != nil {
		return "", close, fmt.Errorf("ucx: memory for the program: %w", err)
	}
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), reading.Fd()), func() { _ = reading.Close() }, nil
}
