package main

import (
	"flag"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The tests of this file are about a release that is there: .ci/release makes it.
var dist = flag.String("dist", "", "a folder that scripts/release.sh has filled, with an image")

// one returns the file of the release with such a name, for this machine's processor.
func one(t *testing.T, pattern string) string {
	t.Helper()
	if *dist == "" {
		t.Skip("no release: -dist")
	}
	list, err := filepath.Glob(filepath.Join(*dist, pattern))
	require.NoError(t, err)
	require.Len(t, list, 1, pattern)
	return list[0]
}

func imageFile(t *testing.T) string { return one(t, "nicless-v*-linux-"+runtime.GOARCH+".image.tar") }

func TestImageRuns(t *testing.T) {
	t.Parallel()
	r := unpack(t, imageFile(t), 2)
	require.Contains(t, r.run(t, "nicless", "run", "--private", "ibv_devinfo"), "PORT_ACTIVE")
	r.writes(t, "nicless")
}

func deb(t *testing.T) string { return one(t, "nicless_*_"+runtime.GOARCH+".deb") }

// A root has glibc, perftest and what it needs, and nothing of nicless, until the command of the tarball
// is copied there.
func TestCommandInBareRoot(t *testing.T) {
	t.Parallel()
	r := unpack(t, imageFile(t), 1)
	require.NoFileExists(t, filepath.Join(string(r), "usr/bin/nicless"))
	out, err := exec.Command("tar", "-xzf", one(t, "nicless-v*-linux-"+runtime.GOARCH+".tar.gz"), "-C", string(r),
		"--strip-components=1", "--wildcards", "*/nicless").CombinedOutput()
	require.NoError(t, err, "%s", out)
	r.writes(t, "/nicless")
}

// dpkg installs the package in a root that has only what the image has, and removes it.
func TestDebInBareRoot(t *testing.T) {
	t.Parallel()
	r := unpack(t, imageFile(t), 1)
	r.knowPackages(t)
	r.dpkg(t, "-i", deb(t))
	r.writes(t, "nicless")
	require.Empty(t, r.dpkg(t, "-V", "nicless"), "no file differs from its checksum")
	r.dpkg(t, "-r", "nicless")
	require.NoFileExists(t, filepath.Join(string(r), "usr/bin/nicless"))
}

// A package is upgraded while an engine runs. The engine keeps running and serves programs, as the old
// version, and of the new version the command works with it.
func TestUpgradeWhileAnEngineRuns(t *testing.T) {
	t.Parallel()
	r := unpack(t, imageFile(t), 1)
	r.knowPackages(t)
	out := r.script(t, upgrade, deb(t), strings.ReplaceAll(both, "PORT", freePort(t)))
	require.Regexp(t, `(?m)^nicless: the engine with pid \d+ keeps running, as the version that was installed before;`+
		` for the new one: it ends after its last program, or by kill \d+$`, out)
	require.Regexp(t, `(?m)^ 65536 +1000 +[0-9.]+`, out)
	require.Contains(t, out, "\nthe engine ended with 0\n")
	require.Equal(t, 1, strings.Count(out, "keeps running"), "once for each engine: %s", out)
}

// upgrade installs the package, starts an engine, and installs the package again: dpkg replaces the files
// although their bytes are the same. $1 is the package, $2 a script that uses the engine.
const upgrade = `
set -e
dpkg --root="$0" -i "$1"
mkfifo "$0/tmp/log"
chroot "$0" nicless engine --socket /tmp/engine.sock --verbs 2>"$0/tmp/log" & engine=$!
head -n 1 "$0/tmp/log" # it is ready
dpkg --root="$0" -i "$1"
readlink /proc/$engine/exe
chroot "$0" nicless run --engine /tmp/engine.sock -- sh -c "$2"
kill $engine
wait $engine && echo "the engine ended with $?"
`
