//go:build linux && (amd64 || arm64)

// Package nodes makes the files of the two machines in the folder lab.
//
//   - files.go: programs, libraries and modules
//   - newer.go: QEMU 10 and Linux 6.12 from Debian's backports, unpacked
package nodes

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	vm "github.com/nicless/nicless/internal/lab"
)

// Modules of the kernel. Those of a kind of memory are loaded where it is looked for.
var (
	modules    = []string{"tun"}
	cxlModules = []string{"libnvdimm", "nd_btt", "nd_pmem", "dax_pmem", "device_dax", "cxl_acpi", "cxl_pmem",
		"cxl_pci", "cxl_mem"}
	newModules = []string{"dax_cxl"} // since Linux 6.3
)

// The machines need the programs in needed; the programs in useful may be missing. nicless opens the
// libraries in opened by their paths. It needs libgcc at the end of a thread.
var (
	needed = []string{"sh", "cat", "ls", "sleep"}
	useful = []string{"ip", "ping", "iperf3", "ibv_devinfo", "ibv_rc_pingpong", "ib_write_bw"}
	opened = []string{"/usr/lib/*-linux-gnu/libibverbs/libmlx5-rdmav*.so", "/lib/*-linux-gnu/libgcc_s.so.1"}
)

// Make returns the files of a machine with this kernel, and which programs are missing because this
// host does not have them. root is the folder of this repository, in which it builds with make and go.
func Make(root string, k vm.Kernel) (f vm.Files, missing []string, err error) {
	f = vm.Files{
		"/etc/passwd":    {Mode: 0o644, Data: []byte("root:x:0:0::/tmp:\n")},
		"/etc/hosts":     {Mode: 0o644, Data: []byte("127.0.0.1 localhost\n")},
		"/etc/protocols": {Mode: 0o644, Data: []byte("icmp 1 ICMP\ntcp 6 TCP\nudp 17 UDP\n")},
	}
	if err := load(f, k); err != nil {
		return nil, nil, err
	}
	if err := build(f, root); err != nil {
		return nil, nil, err
	}
	for _, name := range needed {
		if _, err := f.Program(name); err != nil {
			return nil, nil, err
		}
	}
	for _, name := range useful {
		if _, err := f.Program(name); errors.Is(err, exec.ErrNotFound) {
			missing = append(missing, name)
		} else if err != nil {
			return nil, nil, err
		}
	}
	for _, pattern := range opened {
		found, _ := filepath.Glob(pattern)
		if found == nil {
			missing = append(missing, filepath.Base(pattern))
		}
		for _, path := range found {
			if _, err := f.Program(path); err != nil {
				return nil, nil, err
			}
		}
	}
	if err := f.Copy("/etc/libibverbs.d/mlx5.driver"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, nil, err
	}
	return f, missing, nil
}

// load adds the modules.
func load(f vm.Files, k vm.Kernel) error {
	if err := f.Load(k, modules...); err != nil {
		return err
	}
	list := cxlModules
	if k.Has(newModules[0]) {
		list = append(list[:len(list):len(list)], newModules...)
	}
	return f.LoadFor("cxl", k, list...)
}

// build builds the programs of this repository. The library for verbs programs is inside nicless.
func build(f vm.Files, root string) error {
	dir, err := os.MkdirTemp("", "nicless-lab")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	do := func(name string, args ...string) error {
		cmd := exec.Command(name, args...)
		cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
		if said, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, said)
		}
		return nil
	}
	if err := do("make", "inside"); err != nil {
		return err
	}
	for name, folder := range map[string]string{
		"guest": "internal/lab/guest", "nicless": "cmd/nicless", "poster": "tools/lab/poster",
	} {
		path := filepath.Join(dir, name)
		// With -trimpath, as in scripts/release.sh, so that a release finds most packages in Go's cache.
		if err := do("go", "build", "-trimpath", "-tags", "shim", "-ldflags", "-s -w", "-o", path,
			"./"+folder); err != nil {
			return err
		}
		if name == "guest" {
			err = f.Init(path)
		} else {
			err = f.CopyAs("/usr/bin/"+name, path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
