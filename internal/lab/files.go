//go:build linux && (amd64 || arm64)

package lab

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
)

// Files are the file system of a machine, by absolute name. Folders are made as needed.
type Files map[string]File

// Modules for the machine's first program are in a folder, and a file lists their order, one a line.
const moduleFolder, moduleOrder = "/modules/", "/modules/order"

// Copy adds a file of this machine, under the name that it has here.
func (f Files) Copy(path string) error { return f.CopyAs(path, path) }

// CopyAs adds a file of this machine under another name.
func (f Files) CopyAs(name, path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(path)
	f[name] = File{info.Mode(), data}
	return err
}

var library = regexp.MustCompile(`(?m)^\s*(?:\S+ => )?(/\S+) \(0x`)

// Program adds a program of this machine, found as a shell finds it, or a library that programs
// open by its path; and the libraries that it needs. It returns its name in the machine.
func (f Files) Program(name string) (string, error) {
	path := name
	if !strings.Contains(name, "/") {
		var err error
		if path, err = exec.LookPath(name); err != nil {
			return "", err
		}
	}
	if err := f.Copy(path); err != nil {
		return "", err
	}
	said, err := exec.Command("ldd", path).CombinedOutput()
	if err != nil {
		if strings.Contains(string(said), "not a dynamic executable") {
			return path, nil
		}
		return "", fmt.Errorf("ldd %s: %w: %s", path, err, said)
	}
	for _, at := range library.FindAllSubmatch(said, -1) {
		if err := f.Copy(string(at[1])); err != nil {
			return "", err
		}
	}
	return path, nil
}

// Init adds the machine's first program: a file that go build has made of package guest.
func (f Files) Init(path string) error { return f.CopyAs("/init", path) }

// Load adds modules of a kernel, and all that they need. The first program loads them.
func (f Files) Load(k Kernel, names ...string) error { return f.load(moduleOrder, k, names) }

// LoadFor adds modules for a kind of shared memory, as lab.pool= names it. The first program loads
// them if it looks for memory of this kind.
func (f Files) LoadFor(kind string, k Kernel, names ...string) error {
	return f.load(moduleOrder+"."+kind, k, names)
}

func (f Files) load(file string, k Kernel, names []string) error {
	list, err := k.modules(names...)
	if err != nil {
		return err
	}
	var order strings.Builder
	for _, m := range list {
		f[moduleFolder+m.name] = File{0o644, m.file}
		fmt.Fprintln(&order, m.name)
	}
	f[file] = File{0o644, []byte(order.String())}
	return nil
}
