//go:build linux && (amd64 || arm64)

package lab

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A module is a file that the kernel can load, uncompressed.
type module struct {
	name string
	file []byte
}

// modules returns the named modules and all that they need, each behind what it needs. A name that
// the kernel has built in needs nothing. Kernels that are only unpacked have no list of
// dependencies (depmod writes it), but each module has a list of its own.
func (k Kernel) modules(names ...string) ([]module, error) {
	known, err := k.known()
	if err != nil {
		return nil, err
	}
	var list []module
	seen := make(map[string]bool)
	var add func(name, whose string) error
	add = func(name, whose string) error {
		name = moduleName(name)
		path, ok := known[name]
		switch {
		case !ok:
			return fmt.Errorf("%s: needs module %s, which %s does not have", whose, name, k.Modules)
		case path == "" || seen[name]:
			return nil
		}
		seen[name] = true
		file, err := readModule(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		needs, err := needed(file)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for _, n := range needs {
			if err := add(n, name); err != nil {
				return err
			}
		}
		list = append(list, module{name, file})
		return nil
	}
	for _, name := range names {
		if err := add(name, "the caller"); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// Has reports whether the kernel has a module.
func (k Kernel) Has(name string) bool {
	known, err := k.known()
	_, ok := known[moduleName(name)]
	return err == nil && ok
}

// known returns the files of all modules, by name. A module that is built in has none.
func (k Kernel) known() (map[string]string, error) {
	builtin, err := os.ReadFile(filepath.Join(k.Modules, "modules.builtin"))
	if err != nil {
		return nil, err
	}
	known := make(map[string]string)
	for _, path := range strings.Fields(string(builtin)) {
		known[moduleName(path)] = ""
	}
	if err := filepath.WalkDir(k.Modules, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.Contains(d.Name(), ".ko") {
			known[moduleName(path)] = path
		}
		return err
	}); err != nil {
		return nil, err
	}
	return known, nil
}

// moduleName is the name of a module by its path. File names have dashes where names have
// underscores, as they like.
func moduleName(path string) string {
	name, _, _ := strings.Cut(filepath.Base(path), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

// readModule reads a module. Kernels since Debian 13 have them compressed.
func readModule(path string) ([]byte, error) {
	if strings.HasSuffix(path, ".xz") {
		return exec.Command("xz", "-dc", path).Output()
	}
	return os.ReadFile(path)
}

// needed returns the names of the modules that have to be there before a module.
func needed(file []byte) (names []string, err error) {
	f, err := elf.NewFile(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	section := f.Section(".modinfo")
	if section == nil {
		return nil, errors.New("no .modinfo section: not a module")
	}
	info, err := section.Data()
	if err != nil {
		return nil, err
	}
	for _, line := range strings.Split(string(info), "\x00") {
		if list, ok := strings.CutPrefix(line, "depends="); ok && list != "" {
			names = append(names, strings.Split(list, ",")...)
		}
	}
	return names, nil
}
