//go:build linux && (amd64 || arm64)

package lab

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
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
	if suite == "testing" { // its lists are good for a week only, and some mirrors are renewed less often
		a.options = append(a.options, "-o", "Acquire::Check-Valid-Until=false")
	}
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
	versions, err := a.versions(name)
	if err != nil {
		return "", err
	}
	return a.unpacked(name+"_"+versions[0], name)
}

// Root returns a folder with the contents of several packages, in their newest versions. Nothing runs that
// they would run when they are installed. what is the beginning of its name in the cache.
func (a Apt) Root(what string, packages ...string) (dir string, err error) {
	versions, err := a.versions(packages...)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(strings.Join(slices.Concat(packages, versions), "\n")))
	return a.unpacked(fmt.Sprintf("%s_%x", what, sum[:8]), packages...)
}

// Show returns what apt-cache says of the newest version of a package.
func (a Apt) Show(name string) (string, error) {
	return a.run("", "apt-cache", "show", "--no-all-versions", name)
}

// versions returns the newest version of each package.
func (a Apt) versions(packages ...string) (list []string, err error) {
	said, err := a.run("", "apt-cache", append([]string{"show", "--no-all-versions"}, packages...)...)
	if err != nil {
		return nil, err
	}
	for _, version := range versionOf.FindAllStringSubmatch(said, -1) {
		list = append(list, version[1])
	}
	if len(list) != len(packages) {
		return nil, fmt.Errorf("apt-cache show %s: %d versions, not %d", strings.Join(packages, " "), len(list), len(packages))
	}
	return list, nil
}

// unpacked returns the folder of the cache with a name, which has the contents of packages.
func (a Apt) unpacked(name string, packages ...string) (dir string, err error) {
	cache, err := cacheFolder()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(cache, "packages", a.name, strings.ReplaceAll(name, ":", "_"))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	return dir, a.fetch(packages, dir, func(string) error { return nil })
}

func cacheFolder() (string, error) {
	cache, err := os.UserCacheDir()
	return filepath.Join(cache, "nicless"), err
}

// fetch makes a folder with the contents of packages, to which finish adds something. If others do the same,
// one of them wins.
func (a Apt) fetch(packages []string, dir string, finish func(root string) error) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), "fetch")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	if _, err := a.run(work, "apt-get", append([]string{"-q", "download"}, packages...)...); err != nil {
		return err
	}
	debs, _ := filepath.Glob(filepath.Join(work, "*.deb"))
	if len(debs) != len(packages) {
		return fmt.Errorf("apt-get download %s: made %d packages", strings.Join(packages, " "), len(debs))
	}
	root := filepath.Join(work, "root")
	for _, deb := range debs {
		if said, err := exec.Command("dpkg-deb", "-x", deb, root).CombinedOutput(); err != nil {
			return fmt.Errorf("dpkg-deb -x %s: %w\n%s", deb, err, said)
		}
	}
	if err := finish(root); err != nil {
		return err
	}
	if err := os.Rename(root, dir); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}
