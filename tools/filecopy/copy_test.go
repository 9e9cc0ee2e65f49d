package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestCopy(t *testing.T) {
	const chunk = 4096
	for name, size := range map[string]int{
		"empty":                  0,
		"one byte":               1,
		"one byte short":         chunk - 1,
		"exactly a chunk":        chunk,
		"one byte more":          chunk + 1,
		"exactly the ring":       chunk * slots,
		"many times the ring":    chunk * slots * 5,
		"ends within a chunk":    chunk*slots*3 + 5*chunk + 77,
		"one byte over the ring": chunk*slots + 1,
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			in := p.input(t, size)
			r := p.run(t, "-in", in, "-out", "out", "-chunk", strconv.Itoa(chunk))
			require.Zero(t, r.code, r.stderr)
			assert.Empty(t, r.stderr)
			assert.Contains(t, r.out, fmt.Sprintf("copied %d bytes in %d writes", size, (size+chunk-1)/chunk))
			assert.Contains(t, r.out, fmt.Sprintf("SHA-256 at both ends: %x", sha256.Sum256(content(size))))
			requireContent(t, p.path("out"), content(size))
			assert.Equal(t, []string{"in", "out"}, list(t, p.dir))
		})
	}
}

func requireContent(t *testing.T, path string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, sha256.Sum256(want), sha256.Sum256(got), "%d bytes, %d wanted", len(got), len(want))
}

// TestChunks copies with slots of various sizes, including the default.
func TestChunks(t *testing.T) {
	p := newPlace(t)
	in := p.input(t, 2_500_001)
	for _, args := range [][]string{{}, {"-chunk", "1000003"}, {"-chunk", "777"}} {
		r := p.run(t, append([]string{"-in", in, "-out", "out"}, args...)...)
		require.Zero(t, r.code, r.stderr)
		requireContent(t, p.path("out"), content(2_500_001))
	}
}

// TestReplace copies over an existing file, over a file through a link, and over the input
// itself.
func TestReplace(t *testing.T) {
	p := newPlace(t)
	in := p.input(t, 10_000)
	require.NoError(t, os.WriteFile(p.path("old"), []byte("old"), 0o600))
	require.NoError(t, os.Symlink("old", p.path("link")))
	for _, out := range []string{"link", in} {
		r := p.run(t, "-in", in, "-out", out)
		require.Zero(t, r.code, r.stderr)
	}
	requireContent(t, p.path("old"), content(10_000))
	requireContent(t, in, content(10_000))
	st, err := os.Lstat(p.path("link"))
	require.NoError(t, err)
	assert.NotZero(t, st.Mode()&os.ModeSymlink, "the link was replaced")
}

func TestPipe(t *testing.T) {
	p := newPlace(t)
	cmd := p.command(t, "-in", "/dev/stdin", "-out", "out", "-chunk", "4096")
	cmd.Stdin = strings.NewReader(string(content(300_000)))
	r := finish(t, cmd)
	require.Zero(t, r.code, r.stderr)
	requireContent(t, p.path("out"), content(300_000))
}

func TestUsage(t *testing.T) {
	p := newPlace(t)
	for _, args := range []string{
		"", "-in a", "-out b", "-in a -out b c", "-in a -out b -peer c", "-bogus", "-chunk x",
		"-in a -out b -chunk 0", "-in a -out b -chunk 67108865", "-role",
		"-role x", "-role engine", "-role engine -socket a -in b", "-role send -socket a -peer b",
		"-role send -socket a -in b", "-role recv -out a -peer b", "-role recv -socket a -peer b -out c -in d",
	} {
		r := p.run(t, strings.Fields(args)...)
		assert.Equal(t, 2, r.code, args)
		assert.Regexp(t, `^filecopy: error: .*\nfilecopy: hint: filecopy -h says what is\n$`, r.stderr)
		assert.Empty(t, r.out)
	}
	r := p.run(t, "-h")
	assert.Zero(t, r.code)
	assert.True(t, strings.HasPrefix(r.out, "usage:\n"))
}

// TestBadFiles uses files that cannot be input or output.
func TestBadFiles(t *testing.T) {
	p := newPlace(t)
	in := p.input(t, 1000)
	readOnly := "/sys" // not even root can make files there
	if os.Geteuid() != 0 {
		readOnly = p.path("read-only")
		require.NoError(t, os.Mkdir(readOnly, 0o555))
		require.NoError(t, os.WriteFile(p.path("secret"), nil, 0))
		r := p.run(t, "-in", "secret", "-out", "out")
		assert.Equal(t, result{1, "", "filecopy: error: open secret: permission denied\n"}, r)
	}
	for _, c := range []struct{ in, out, stderr string }{
		{"missing", "out", "filecopy: error: stat missing: no such file or directory\n"},
		{p.dir, "out", "filecopy: error: " + p.dir + " is a directory\nfilecopy: hint: name a file in it\n"},
		{"/dev/zero", "out", "filecopy: error: /dev/zero is neither a regular file nor a pipe\nfilecopy: hint: "},
		{in, "missing/out", "filecopy: error: stat missing: no such file or directory\nfilecopy: hint: make the directory first\n"},
		{in, "in/out", "filecopy: error: stat in/out: not a directory\n"},
		{in, p.dir, "filecopy: error: " + p.dir + " is a directory\nfilecopy: hint: name the file to be made in it\n"},
		{in, "/dev/full", "filecopy: error: /dev/full is not a regular file, and will not be replaced by one\n"},
		{in, readOnly + "/out", "filecopy: error: open " + readOnly + "/.out.filecopy-"},
	} {
		r := p.run(t, "-in", c.in, "-out", c.out)
		assert.Equal(t, 1, r.code, "%+v", c)
		assert.True(t, strings.HasPrefix(r.stderr, c.stderr), "%q\n%q", r.stderr, c.stderr)
	}
	assert.NoFileExists(t, p.path("out"))
}

// TestFileTooLarge reaches the limit on file sizes in the middle of a copy.
func TestFileTooLarge(t *testing.T) {
	p := newPlace(t)
	in := p.input(t, 6<<20)
	require.NoError(t, os.WriteFile(p.path("out"), []byte("old"), 0o600))
	cmd := p.command(t)
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", `ulimit -f 4096; exec "$0" "$@"`,
		os.Args[0], "-in", in, "-out", "out", "-chunk", "4096"}
	r := finish(t, cmd)
	assert.Equal(t, 1, r.code)
	assert.Regexp(t, `^filecopy: error: receiver: write \.out\.filecopy-\d+: file too large\n$`, r.stderr)
	requireContent(t, p.path("out"), []byte("old"))
}

// TestDiskFull copies to a file system of 1 MiB, which is mounted in a separate namespace.
func TestDiskFull(t *testing.T) {
	p := newPlace(t)
	in := p.input(t, 3<<20)
	disk := p.path("disk")
	require.NoError(t, os.Mkdir(disk, 0o700))
	sh := func(script string, args ...string) *exec.Cmd {
		cmd := p.command(t)
		cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", "mount -t tmpfs -o size=1m none disk && " + script}, args...)
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		}
		return cmd
	}
	if err := sh("true").Run(); err != nil {
		t.Skipf("a file system cannot be mounted in a namespace here: %v", err)
	}
	cmd := sh(`"$0" "$@"; code=$?; ls -A disk; exit $code`, os.Args[0], "-in", in, "-out", filepath.Join("disk", "out"), "-chunk", "4096")
	r := finish(t, cmd)
	assert.Equal(t, 1, r.code)
	assert.Regexp(t, `^filecopy: error: receiver: write .*/\.out\.filecopy-\d+: no space left on device\n$`, r.stderr)
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	assert.Contains(t, lines[len(lines)-1], "sender, pid", "files were left on the full disk")
}
