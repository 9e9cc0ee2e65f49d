//go:build linux && (amd64 || arm64)

// Build makes the files with which the scripts in lab/vms start machines, in a folder:
//
//	build FOLDER         Debian's kernel
//	build --new FOLDER   Linux 6.12 and QEMU 10 from Debian's backports
//
// With --new it prints commands for a shell that set the variables of the scripts.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	vm "github.com/nicless/nicless/internal/lab"
	"github.com/nicless/nicless/internal/lab/nodes"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "build: error:", err)
		os.Exit(1)
	}
}

func run() error {
	newer := flag.Bool("new", false, "Linux 6.12 and QEMU 10 from Debian's backports")
	flag.Parse()
	if flag.NArg() != 1 {
		return fmt.Errorf("%q: a folder is needed", flag.Args())
	}
	dir, err := filepath.Abs(flag.Arg(0))
	if err != nil {
		return err
	}
	var k vm.Kernel
	variables := []string{"LAB_DIR=" + dir}
	if *newer {
		b, err := nodes.FetchNewer()
		if err != nil {
			return err
		}
		k = b.Kernel
		variables = append(variables, b.Variables()...)
	} else if k, err = vm.Fetch(nodes.Kernel); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	files, missing, err := nodes.Make(".", k)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		fmt.Fprintln(os.Stderr, "build: not in the machines, because they are not on this host:", strings.Join(missing, ", "))
	}
	if err := files.WriteFile(filepath.Join(dir, "initramfs")); err != nil {
		return err
	}
	image, err := os.ReadFile(k.Image)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "vmlinux"), image, 0o644); err != nil {
		return err
	}
	if *newer {
		for _, v := range variables {
			name, value, _ := strings.Cut(v, "=")
			fmt.Printf("export %s='%s'\n", name, value)
		}
	}
	return nil
}
