//go:build linux && (amd64 || arm64)

package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// A Kernel is an unpacked package of a Debian kernel.
type Kernel struct {
	Image   string // the file that QEMU starts
	Modules string // the folder of its modules, lib/modules/VERSION
}

var dependsOn = regexp.MustCompile(`(?m)^\s*Depends: (linux-image-\S+)`)

// Fetch returns the kernel on which a package of Debian depends, such as linux-image-amd64; see Apt.Kernel.
func Fetch(meta string) (Kernel, error) { return Apt{}.Kernel(meta) }

// Kernel returns the kernel on which a package depends, such as linux-image-amd64: the name of the
// kernel's own package changes with each security update. It asks apt for the kernel the first time,
// about 70 MB, and keeps it in the user's cache, about 400 MB. The kernels for clouds are a third of that.
func (a Apt) Kernel(meta string) (Kernel, error) {
	said, err := a.run("", "apt-cache", "depends", meta)
	if err != nil {
		return Kernel{}, err
	}
	name := dependsOn.FindStringSubmatch(said)
	if name == nil {
		return Kernel{}, fmt.Errorf("apt-cache names no kernel on which %s depends (apt-get update?): %q", meta, said)
	}
	cache, err := cacheFolder()
	if err != nil {
		return Kernel{}, err
	}
	dir := filepath.Join(cache, "kernels", name[1])
	if k, err := unpacked(dir); err == nil {
		return k, nil
	}
	if err := a.fetch([]string{name[1]}, dir, func(root string) error {
		images, _ := filepath.Glob(filepath.Join(root, "boot", "vmlinuz-*"))
		if len(images) != 1 {
			return fmt.Errorf("%s has %d kernels", name[1], len(images))
		}
		return decompress(images[0], filepath.Join(root, kernelFile))
	}); err != nil {
		return Kernel{}, err
	}
	return unpacked(dir)
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
