//go:build linux && (amd64 || arm64)

package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
)

// A Kernel is an unpacked package of a Debian kernel.
type Kernel struct {
	Image   string // the file that QEMU starts
	Modules string // the folder of its modules, lib/modules/VERSION
}

var dependsOn = regexp.MustCompile(`(?m)^\s*Depends: (linux-image-\S+)`)

// Fetch returns the kernel on which a package of Debian depends, such as linux-image-amd64: the
// name of the kernel's own package changes with each security update. It asks apt for the kernel
// the first time, about 70 MB, and keeps it in the user's cache, about 400 MB.
func Fetch(meta string) (Kernel, error) {
	said, err := exec.Command("apt-cache", "depends", meta).Output()
	if err != nil {
		return Kernel{}, fmt.Errorf("apt-cache depends %s: %w", meta, err)
	}
	name := dependsOn.FindSubmatch(said)
	if name == nil {
		return Kernel{}, fmt.Errorf("apt-cache names no kernel on which %s depends (apt-get update?): %q", meta, said)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return Kernel{}, err
	}
	dir := filepath.Join(cache, "nicless", "kernels", string(name[1]))
	if k, err := unpacked(dir); err == nil {
		return k, nil
	}
	if err := fetch(string(name[1]), dir); err != nil {
		return Kernel{}, err
	}
	return unpacked(dir)
}

// fetch makes a folder with the contents of a package. If others do the same, one of them wins.
func fetch(name, dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), "fetch")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	get := exec.Command("apt-get", "-q", "download", name)
	get.Dir = work
	if said, err := get.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", get, err, said)
	}
	debs, _ := filepath.Glob(filepath.Join(work, "*.deb"))
	if len(debs) != 1 {
		return fmt.Errorf("%s: made %d packages", get, len(debs))
	}
	root := filepath.Join(work, "root")
	if said, err := exec.Command("dpkg-deb", "-x", debs[0], root).CombinedOutput(); err != nil {
		return fmt.Errorf("dpkg-deb -x %s: %w\n%s", debs[0], err, said)
	}
	images, _ := filepath.Glob(filepath.Join(root, "boot", "vmlinuz-*"))
	if len(images) != 1 {
		return fmt.Errorf("%s has %d kernels", debs[0], len(images))
	}
	if err := decompress(images[0], filepath.Join(root, kernelFile)); err != nil {
		return err
	}
	if err := os.Rename(root, dir); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

// kernelFile is the kernel in its folder of the cache.
const kernelFile = "vmlinux"

// unpacked returns the kernel in a folder. Its modules are in lib or, in newer packages, in usr/lib.
func unpacked(dir string) (Kernel, error) {
	image := filepath.Join(dir, kernelFile)
	if _, err := os.Stat(image); err != nil {
		return Kernel{}, err
	}
	modules, _ := filepath.Glob(filepath.Join(dir, "lib", "modules", "*"))
	newer, _ := filepath.Glob(filepath.Join(dir, "usr", "lib", "modules", "*"))
	if modules = append(modules, newer...); len(modules) != 1 {
		return Kernel{}, fmt.Errorf("%s has modules for %d kernels, not one", dir, len(modules))
	}
	return Kernel{Image: image, Modules: modules[0]}, nil
}
