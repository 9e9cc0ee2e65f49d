//go:build linux && (amd64 || arm64)

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/unixsock"
	"github.com/nicless/nicless/verbs"
	"golang.org/x/sys/unix"
)

// This file finds or starts the engine of a program. The engine of a program is the one that
// --engine names. Without --engine it is the user's own engine, which starts with the first
// program and ends after the last.
//
// Two lock files in the engine's directory decide when the user's engine starts and ends. The
// kernel releases a lock when its holder ends. Each process that runs a program holds a shared
// lock on the file `users`. The engine waits until it gets an exclusive lock on `users`, and
// then ends. A process holds an exclusive lock on the file `starts` while it looks for the
// engine and, if it finds none, starts one.

// A place is where an engine is.
type place struct {
	socket string
	engine *exec.Cmd // nil unless this process has started it
	own    bool      // its directory is removed with it (--private)
}

// socketName is the file name of the socket of an engine that this command starts.
const socketName = "engine.sock"

func (p place) verbs() string { return p.socket + nicless.VerbsSuffix }

// alive returns nil if an engine serves programs there.
func (p place) alive() error {
	conn, err := net.Dial("unixpacket", filepath.Join(p.verbs(), verbs.SocketName))
	if err != nil {
		return err
	}
	return conn.Close()
}

// names returns the names of the devices that programs see, sorted.
func (p place) names() (names []string) {
	list, _ := os.ReadDir(filepath.Join(p.verbs(), "sys/class/infiniband"))
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// device returns the name of the device at a port of the engine.
func (p place) device(port int) string {
	names := p.names()
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(len(a), len(b)) }) // 2 before 10
	if port >= len(names) {
		return ""
	}
	return names[port]
}

// devices returns the number of devices that programs see.
func (p place) devices() int { return len(p.names()) }

// namedSo reports whether devices have the names of --device-name.
func namedSo(have []string, names string) bool {
	var all []string
	for i := range have {
		all = append(all, nic.Names(names).Of(uint8(i)))
	}
	slices.Sort(all)
	return slices.Equal(have, all)
}

// links returns the link layers of these devices.
func (p place) links() (all []string) {
	files, _ := filepath.Glob(filepath.Join(p.verbs(), "sys/class/infiniband/*/ports/1/link_layer"))
	for _, f := range files {
		text, _ := os.ReadFile(f)
		all = append(all, strings.ToLower(strings.TrimSpace(string(text))))
	}
	return all
}

// turns returns the link layers of n devices that have those of a list, in turn.
func turns(links []string, n int) (all []string) {
	for i := range n {
		all = append(all, links[i%len(links)])
	}
	return all
}

// place returns the engine for the program and starts one if necessary. The engine does not
// end before release is called.
func (f *runFlags) place() (p place, release func(), err error) {
	if f.engine != "" {
		return f.given()
	}
	dir, err := f.directory()
	if err != nil {
		return p, nil, err
	}
	users, err := lock(filepath.Join(dir, "users"), unix.LOCK_SH)
	if err != nil {
		return p, nil, err
	}
	stopUsing := func() {
		_ = users.Close()
		if f.private {
			if p.engine != nil {
				_ = p.engine.Wait()
			}
			_ = os.RemoveAll(dir)
		}
	}
	defer func() {
		if err != nil {
			stopUsing()
		}
	}()
	starts, err := lock(filepath.Join(dir, "starts"), unix.LOCK_EX)
	if err != nil {
		return p, nil, err
	}
	defer starts.Close()
	p.socket, p.own = filepath.Join(dir, socketName), f.private
	if err := checkSocketPath(filepath.Join(p.verbs(), verbs.SocketName)); err != nil {
		return p, nil, err
	}
	if p.alive() == nil {
		if n := p.devices(); f.devices > 0 && n != f.devices {
			return p, nil, hintf("wait until the programs that use it have ended, or use --private",
				"--devices %d: your engine runs already, with %d", f.devices, n)
		}
		if have := p.links(); len(f.links) > 0 && !slices.Equal(have, turns(f.links, len(have))) {
			return p, nil, hintf("wait until the programs that use it have ended, or use --private",
				"--link-layer %s: your engine runs already, with %s", strings.Join(f.links, ","), strings.Join(have, ","))
		}
		if have := p.names(); f.names != "" && !namedSo(have, f.names) {
			return p, nil, hintf("wait until the programs that use it have ended, or use --private",
				"--device-name %s: your engine runs already, with %s", f.names, strings.Join(have, ", "))
		}
		if err := f.checkRunningGUID(p); err != nil {
			return p, nil, err
		}
		if asked, _ := os.ReadFile(filepath.Join(dir, linksFile)); len(f.fabric) > 0 &&
			string(asked) != strings.Join(f.fabric, " ") {
			return p, nil, hintf("wait until the programs that use it have ended, or use --private",
				"--link %s: your engine runs already, with --link %s", strings.Join(f.fabric, " "), cmp.Or(string(asked), "auto"))
		}
		return p, stopUsing, nil
	}
	if err := os.WriteFile(filepath.Join(dir, linksFile), []byte(strings.Join(f.fabric, " ")),
		0o600); err != nil {
		return p, nil, err
	}
	p.engine, err = p.start(f, filepath.Join(dir, "users"))
	return p, stopUsing, err
}

// linksFile says, beside the socket of a user's engine, which --link it was started with.
const linksFile = "links"

// given returns the engine that --engine names.
func (f *runFlags) given() (p place, release func(), err error) {
	socket, err := filepath.Abs(f.engine)
	if err != nil {
		return p, nil, err
	}
	p.socket = socket
	start := "start it in another terminal: nicless engine --socket " + f.engine + " --verbs"
	err = p.alive()
	switch {
	case err == nil:
		return p, func() {}, nil
	case errors.Is(err, fs.ErrPermission):
		return p, nil, hintf("its owner decides who may connect: nicless engine --mode", "--engine %s: %w", f.engine, err)
	case missing(socket):
		return p, nil, hintf(start, "--engine %s: there is no engine", f.engine)
	case missing(p.verbs()):
		return p, nil, hintf(start, "--engine %s: this engine does not serve programs of rdma-core: it was not started with --verbs", f.engine)
	}
	return p, nil, hintf(start, "--engine %s: %w", f.engine, err)
}

// directory returns the directory of the engine's files. With --private it makes a directory
// for this program alone; otherwise it returns the user's.
func (f *runFlags) directory() (dir string, err error) {
	if f.private {
		return os.MkdirTemp("", "nicless-")
	}
	return userDirectory()
}

// library returns the path of the library that programs preload. If the library is inside this
// command, it is written to a directory in which only this user can write. The directory of an
// engine that --engine names is not used, because other users may be able to write there: a
// user who can change the library can run any code as this user.
func (f *runFlags) library(p place) (path string, err error) {
	return findLibrary(func() (string, error) {
		if f.engine != "" {
			return userDirectory()
		}
		return filepath.Dir(p.socket), nil
	})
}

// userDirectory makes the directory for the engine of this user and returns it. No other user
// can write there.
func userDirectory() (dir string, err error) {
	dir = filepath.Join(os.TempDir(), fmt.Sprintf("nicless-%d", os.Getuid()))
	if run := os.Getenv("XDG_RUNTIME_DIR"); run != "" && owned(run) {
		dir = filepath.Join(run, "nicless")
	}
	if err := unixsock.MakeDirectory(dir, 0o700); err != nil {
		return "", hintf("choose another place for your files: XDG_RUNTIME_DIR=DIR", "%w", err)
	}
	return dir, nil
}

// defaultSocket returns the socket of the engine that a command without --engine is about. In a program of
// nicless run, it is the program's, as --private or --engine have chosen it; elsewhere, the user's own.
func defaultSocket() (string, error) {
	if dir := os.Getenv("NICLESS_VERBS"); dir != "" {
		return strings.TrimSuffix(dir, nicless.VerbsSuffix), nil
	}
	dir, err := userDirectory()
	return filepath.Join(dir, socketName), err
}

// owned reports whether a file belongs to this user. XDG_RUNTIME_DIR can be another user's
// directory, because sudo may leave the variable as it was.
func owned(path string) bool {
	var st unix.Stat_t
	return unix.Stat(path, &st) == nil && int(st.Uid) == os.Getuid()
}

// lock opens a file, which it makes if necessary, and waits until it has locked it.
func lock(path string, how int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := unix.Flock(int(f.Fd()), how)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, unix.EINTR) {
			_ = f.Close()
			return nil, fmt.Errorf("%s: lock: %w", path, err)
		}
	}
}

// start starts an engine that ends when no process holds a lock on the file users any more. The
// engine runs in a new session, so that Ctrl-C in the terminal ends the program but not the
// engine.
func (p place) start(f *runFlags, users string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	logPath := filepath.Join(filepath.Dir(p.socket), "engine.log")
	log, err := os.Create(logPath)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	ready, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer ready.Close()
	c := exec.Command(self, "engine", "--socket", p.socket, "--verbs", "--verbs-devices",
		strconv.Itoa(f.started()), "--users", users, "--ready-fd", "3")
	if len(f.links) > 0 {
		c.Args = append(c.Args, "--link-layer", strings.Join(f.links, ","))
	}
	if f.names != "" {
		c.Args = append(c.Args, "--device-name", f.names)
	}
	if f.guid != "" {
		c.Args = append(c.Args, "--guid", f.guid)
	}
	for _, l := range f.fabric {
		c.Args = append(c.Args, "--link", l)
	}
	c.Stdout, c.Stderr = log, log
	c.ExtraFiles = []*os.File{theirs}
	c.Dir = "/" // with another current directory, the engine would keep that file system from being unmounted
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	c.Env = without(os.Environ(), "LD_PRELOAD")
	err = c.Start()
	_ = theirs.Close()
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	if isReady(ready, logPath, os.Stderr, startTime+waitOf(f.fabric)) {
		return c, nil
	}
	_ = c.Process.Kill()
	_ = c.Wait()
	text, _ := os.ReadFile(logPath)
	hint := "its standard error is in " + logPath
	if p.own {
		hint = ""
	}
	return nil, hintf(hint, "the engine did not start: %s", lastLine(string(text)))
}

func lastLine(text string) string {
	last := ""
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		if !strings.HasPrefix(line, "nicless: hint: ") { // the error is in the line before
			last = line
		}
	}
	return strings.TrimPrefix(last, "nicless: error: ")
}

func without(env []string, name string) (out []string) {
	for _, e := range env {
		if !strings.HasPrefix(e, name+"=") {
			out = append(out, e)
		}
	}
	return out
}

// whenUnused calls the function end as soon as no other process holds a lock on a file. From
// then until it ends, this process holds the lock, so that the next program waits until this
// engine is gone.
func whenUnused(path string, end func()) error {
	if missing(path) {
		return fmt.Errorf("engine: --users %s: no such file", path)
	}
	go func() {
		f, err := lock(path, unix.LOCK_EX)
		if err != nil {
			fmt.Fprintf(os.Stderr, "nicless: error: %v\n", err)
		}
		defer runtime.KeepAlive(f) // the kernel releases the lock when f is closed
		end()
		select {}
	}()
	return nil
}
