//go:build linux && (amd64 || arm64)

package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// An Apt fetches packages and unpacks them into the user's cache. Nothing is installed. The zero value
// asks the sources of this host.
type Apt struct {
	options []string // options of apt's programs
	name    string   // name of the folder in the cache
}

// mirror and keyring are where Debian's packages come from, and what they are signed by.
const (
	mirror  = "http://deb.debian.org/debian"
	keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

	// fresh is for how long a list of packages is good. Older kernels disappear from the mirrors.
	fresh = 12 * time.Hour
)

// Suite returns an Apt that asks for packages of one suite, such as bookworm-backports, whatever sources
// this host has. It keeps lists of its own in the user's cache.
func Suite(suite string) (Apt, error) {
	cache, err := cacheFolder()
	if err != nil {
		return Apt{}, err
	}
	dir := filepath.Join(cache, "apt", suite)
	for _, d := range []string{"lists/partial", "archives/partial"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return Apt{}, err
		}
	}
	sources := filepath.Join(dir, "sources.list")
	if err := os.WriteFile(sources, fmt.Appendf(nil, "deb [signed-by=%s] %s %s main\n", keyring, mirror, suite), 0o644); err != nil {
		return Apt{}, err
	}
	a := Apt{name: suite, options: []string{"-o", "Dir::Etc::sourcelist=" + sources, "-o", "Dir::Etc::sourceparts=/dev/null",
		"-o", "Dir::State::lists=" + filepath.Join(dir, "lists"), "-o", "Dir::Cache=" + dir}}
	updated := filepath.Join(dir, "updated")
	if info, err := os.Stat(updated); err == nil && time.Since(info.ModTime()) < fresh {
		return a, nil
	}
	// Without this option apt-get succeeds although it has reached no server.
	if _, err := a.run("", "apt-get", "-q", "update", "--error-on=any"); err != nil {
		return Apt{}, fmt.Errorf("packages of %s: %w", suite, err)
	}
	return a, os.WriteFile(updated, nil, 0o644)
}

// run runs one of apt's programs in a folder.
func (a Apt) run(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, append(a.options[:len(a.options):len(a.options)], args...)...)
	cmd.Dir = dir
	var wrong strings.Builder
	cmd.Stderr = &wrong
	said, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, wrong.String())
	}
	return string(said), err
}

var versionOf = regexp.MustCompile(`(?m)^Version: (\S+)`)

// Unpack returns a folder with the contents of a package, in its newest version.
func (a Apt) Unpack(name string) (dir string, err error) {
	said, err := a.run("", "apt-cache", "show", "--no-all-versions", name)
	if err != nil {
		return "", err
	}
	version := versionOf.FindStringSubmatch(said)
	if version == nil {
		return "", fmt.Errorf("apt-cache show %s: no version: %q", name, said)
	}
	cache, err := cacheFolder()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(cache, "packages", a.name, name+"_"+strings.ReplaceAll(version[1], ":", "_"))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	return dir, a.fetch(name, dir, func(string) error { return nil })
}

func cacheFolder() (string, error) {
	cache, err := os.UserCacheDir()
	return filepath.Join(cache, "nicless"), err
}

// fetch makes a folder with the contents of a package, to which finish adds something. If others do the same,
// one of them wins.
func (a Apt) fetch(name, dir string, finish func(root string) error) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), "fetch")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	if _, err := a.run(work, "apt-get", "-q", "download", name); err != nil {
		return err
	}
	debs, _ := filepath.Glob(filepath.Join(work, "*.deb"))
	if len(debs) != 1 {
		return fmt.Errorf("apt-get download %s: made %d packages", name, len(debs))
	}
	root := filepath.Join(work, "root")
	if said, err := exec.Command("dpkg-deb", "-x", debs[0], root).CombinedOutput(); err != nil {
		return fmt.Errorf("dpkg-deb -x %s: %w\n%s", debs[0], err, said)
	}
	if err := finish(root); err != nil {
		return err
	}
	if err := os.Rename(root, dir); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}
