package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/nicless/nicless/verbs"
	"github.com/stretchr/testify/require"
)

// program makes an ELF file for a processor. The file names a loader, unless loader is "".
func program(t *testing.T, machine elf.Machine, loader string) string {
	t.Helper()
	head := elf.Header64{
		Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: 1, Phoff: 64, Ehsize: 64, Phentsize: 56, Shentsize: 64, Phnum: 1,
	}
	copy(head.Ident[:], elf.ELFMAG+"\x02\x01\x01")
	segment := elf.Prog64{Type: uint32(elf.PT_LOAD), Off: 120, Filesz: uint64(len(loader)) + 1}
	if loader != "" {
		segment.Type = uint32(elf.PT_INTERP)
	}
	var b bytes.Buffer
	require.NoError(t, binary.Write(&b, binary.LittleEndian, head))
	require.NoError(t, binary.Write(&b, binary.LittleEndian, segment))
	b.WriteString(loader + "\x00")
	path := filepath.Join(t.TempDir(), "program")
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o755))
	return path
}

// A program that would ignore the library is refused, and the error says why.
func TestProgramsThatIgnoreTheLibrary(t *testing.T) {
	const glibc = "/lib64/ld-linux-x86-64.so.2"
	self, err := os.Executable()
	require.NoError(t, err)
	f, err := elf.Open(self)
	require.NoError(t, err)
	own := f.Machine
	require.NoError(t, f.Close())

	require.NoError(t, loadable(program(t, own, glibc), 0))
	require.NoError(t, loadable("/bin/sh", 0))
	script := filepath.Join(t.TempDir(), "script")
	write := func(first string) string {
		require.NoError(t, os.WriteFile(script, []byte(first), 0o755))
		return script
	}
	require.NoError(t, loadable(write("#! /bin/sh -e\n"), 0))

	for name, row := range map[string]struct{ path, speaks string }{
		"static":             {program(t, own, ""), "is linked statically: such a program ignores LD_PRELOAD"},
		"of another machine": {program(t, elf.EM_RISCV, glibc), "EM_RISCV"},
		"of musl":            {program(t, own, "/lib/ld-musl-x86_64.so.1"), "is a program of musl"},
		"no program":         {write("words\n"), "neither ELF nor a script"},
		"a script of a static": {func() string {
			path := filepath.Join(t.TempDir(), "s")
			require.NoError(t, os.WriteFile(path, []byte("#!"+program(t, own, "")+"\n"), 0o755))
			return path
		}(), "is linked statically"},
	} {
		require.ErrorContains(t, loadable(row.path, 0), row.speaks, name)
	}

	if os.Getuid() == 0 {
		path := program(t, own, glibc)
		require.NoError(t, os.Chown(path, 1, 1))
		require.NoError(t, os.Chmod(path, 0o755|os.ModeSetuid))
		require.ErrorContains(t, loadable(path, 0), "runs as another user or group (setuid)")
		require.NoError(t, os.Chown(path, 0, 0))
		require.NoError(t, os.Chmod(path, 0o755|os.ModeSetuid))
		require.NoError(t, loadable(path, 0), "its own user's")
	}
}

// Likely causes are printed if the program failed by itself and nothing was explained.
func TestLikelyCauses(t *testing.T) {
	var g likelyCauses
	for _, pid := range []string{"7", "8", "9", "10"} {
		require.True(t, g.keep(pid, verbs.IfFailed+"a"+pid))
	}
	var out bytes.Buffer
	g.print(&out)
	require.Equal(t, "nicless: likely: pid 7: a7\nnicless: likely: pid 8: a8\nnicless: likely: pid 9: a9\n", out.String())
	require.False(t, g.keep("8", "refused"))
	out.Reset()
	g.print(&out)
	require.Empty(t, out.String())

	require.ErrorContains(t, exitOf(exec.Command("/nosuch/sh"), "record", "sh"), "record: sh: ")
	ends := func(script string) error { return exitOf(exec.Command("/bin/sh", "-c", script), "run", "sh") }
	require.False(t, isFailure(ends("exit 0")))
	require.True(t, isFailure(ends("exit 3")))
	require.True(t, isFailure(ends("kill -ABRT $$")))
	require.False(t, isFailure(ends("kill -TERM $$")), "a user ended it")
}

func TestEnvironment(t *testing.T) {
	got := environment([]string{"A=1", "LD_PRELOAD=theirs.so", "SYSFS_PATH=/sys", "B"}, "/ours.so", "/dir", (&runFlags{slow: true, stacks: true, noDEVX: true}).settings())
	require.Equal(t, "A=1 B ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD=/ours.so:theirs.so NICLESS_STACKS=1 NICLESS_VERBS=/dir NICLESS_VERBS_DEVX=0 NICLESS_VERBS_SLOW=1", strings.Join(got, " "))
	got = environment([]string{"ASAN_OPTIONS=detect_leaks=0"}, "/ours.so", "/dir", (&runFlags{devx: true}).settings())
	require.Equal(t, "ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0 LD_PRELOAD=/ours.so NICLESS_VERBS=/dir NICLESS_VERBS_DEVX=1", strings.Join(got, " "))
}

// A directory in which other users may write is refused.
func TestDirectoryOfOthers(t *testing.T) {
	run := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", run)
	var f runFlags
	dir, err := f.directory()
	require.NoError(t, err)
	require.Equal(t, filepath.Join(run, "nicless"), dir)
	require.NoError(t, os.Chmod(dir, 0o777))
	_, err = f.directory()
	require.ErrorContains(t, err, "in which no other user may write")
	require.NoError(t, os.Remove(dir))
	require.NoError(t, os.Symlink(t.TempDir(), dir))
	_, err = f.directory()
	require.ErrorContains(t, err, "it has to be a directory of user")
}

// A runtime directory that belongs to another user, as after sudo, is not used.
func TestRuntimeDirectoryOfAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, for a directory of another user")
	}
	run := t.TempDir()
	require.NoError(t, os.Chown(run, 1, 1))
	t.Setenv("XDG_RUNTIME_DIR", run)
	t.Setenv("TMPDIR", t.TempDir())
	var f runFlags
	dir, err := f.directory()
	require.NoError(t, err)
	require.Equal(t, filepath.Join(os.TempDir(), "nicless-0"), dir)
}

// Another user may have started the engine that --engine names. So no library is looked for or
// written in that engine's directory: a user who may write there could choose what is preloaded.
func TestLibraryIsNotTakenFromTheEnginesDirectory(t *testing.T) {
	defer func(was []byte) { embeddedShim = was }(embeddedShim)
	embeddedShim = []byte("library")
	t.Setenv("NICLESS_SHIM", "")
	run, there := t.TempDir(), t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", run)
	require.NoError(t, os.WriteFile(filepath.Join(there, libraryName), embeddedShim, 0o755))
	f := runFlags{engine: filepath.Join(there, "n.sock")}
	path, err := f.library(place{socket: f.engine})
	require.NoError(t, err)
	require.Equal(t, filepath.Join(run, "nicless", libraryName), path)
}

// The program of "nohup nicless run PROGRAM" ignores the signals that nohup makes nicless ignore.
func TestIgnoredSignalsStayIgnored(t *testing.T) {
	const isChild = "NICLESS_RUN_CHILD"
	if os.Getenv(isChild) != "" {
		require.NoError(t, exitOf(&exec.Cmd{Path: "/bin/cat", Args: []string{"cat", "/proc/self/status"}, Stdout: os.Stdout}, "run",
			"cat"))
		return
	}
	ignored := func(how string) uint64 {
		c := exec.Command("/bin/sh", "-c", how+`exec "$0" -test.run=^TestIgnoredSignalsStayIgnored$`, os.Args[0])
		c.Env = append(os.Environ(), isChild+"=1")
		out, err := c.Output()
		require.NoError(t, err)
		_, after, found := strings.Cut(string(out), "SigIgn:\t")
		require.True(t, found, "%s", out)
		set, err := strconv.ParseUint(after[:16], 16, 64)
		require.NoError(t, err)
		return set
	}
	const hangup = 1 << 0
	require.NotZero(t, ignored("trap '' HUP; ")&hangup)
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		require.Zero(t, ignored("")&hangup)
	}
}

// The library that is embedded in the command is written to the engine's directory, and again
// only if the file there differs.
func TestEmbeddedLibrary(t *testing.T) {
	defer func(was []byte) { embeddedShim = was }(embeddedShim)
	embeddedShim = []byte("library")
	t.Setenv("NICLESS_SHIM", "")
	dir := t.TempDir()
	here := func() (string, error) { return dir, nil }
	path, err := findLibrary(here)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, libraryName), path)
	was, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o755), was.Mode())
	for _, text := range []string{"library", "another"} {
		embeddedShim = []byte(text)
		_, err = findLibrary(here)
		require.NoError(t, err)
		is, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, text == "library", os.SameFile(was, is))
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, text, string(b))
	}
	for _, l := range []*preload{&verbsPreload, &recordPreload} {
		err := l.preloadable("/a b/lib.so")
		require.ErrorContains(t, err, "no path with a colon or a space")
		var h *hinted
		require.ErrorAs(t, err, &h)
		require.Equal(t, "put the library elsewhere, and name it with "+l.variable+"=PATH", h.hint)
	}
}
