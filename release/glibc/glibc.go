// Package glibc tells with which versions of the GNU C library an ELF file can be loaded.
//
// A version of a symbol, such as GLIBC_2.34 of dlsym, is that of glibc in which the symbol came to be or was
// changed. The dynamic linker refuses a file that needs a version which the installed library does not
// have.
package glibc

import (
	"debug/elf"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Oldest is the version of glibc from which on everything in a release loads: that of Debian 11 and Ubuntu
// 20.04.
var Oldest = Version{2, 31}

// A Version is the version of glibc: 2.2.5 is {2, 2, 5}. Versions compare by slices.Compare.
type Version []int

// Parse reads the name of a symbol's version, such as GLIBC_2.34.
func Parse(name string) (Version, error) {
	digits, ok := strings.CutPrefix(name, "GLIBC_")
	if !ok {
		return nil, fmt.Errorf("version %q does not begin with GLIBC_", name)
	}
	var v Version
	for part := range strings.SplitSeq(digits, ".") {
		n, err := strconv.Atoi(part)
		if err != nil { // GLIBC_PRIVATE, which changes with each glibc, and GLIBC_ABI_DT_RELR
			return nil, fmt.Errorf("version %q has no number", name)
		}
		v = append(v, n)
	}
	return v, nil
}

func (v Version) String() string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint([]int(v)), " ", "."), "[]")
}

// Check returns an error if an ELF file needs a symbol that is newer than the version most. The error names
// these symbols. A file without a dynamic section needs nothing.
func Check(path string, most Version) error {
	f, err := elf.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if f.SectionByType(elf.SHT_DYNAMIC) == nil {
		return nil
	}
	if err := checkVersions(f, path, most); err != nil {
		return err
	}
	symbols, err := f.ImportedSymbols()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	var newer []string
	for _, s := range symbols {
		if v, err := Parse(s.Version); err == nil && slices.Compare(v, most) > 0 {
			newer = append(newer, s.Name+"@"+s.Version)
		}
	}
	if len(newer) > 0 {
		return fmt.Errorf("%s needs more than glibc %v: %s", path, most, strings.Join(newer, ", "))
	}
	return nil
}

// checkVersions looks at the versions that the dynamic linker compares before it looks for any symbol. Those
// without a number are refused: nothing says with which glibc they came.
func checkVersions(f *elf.File, path string, most Version) error {
	needs, err := f.DynamicVersionNeeds()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, need := range needs {
		for _, dep := range need.Needs {
			if !strings.HasPrefix(dep.Dep, "GLIBC_") {
				continue
			}
			if _, err := Parse(dep.Dep); err != nil {
				return fmt.Errorf("%s: of %s, %w; at most glibc %v may be needed", path, need.Name, err, most)
			}
		}
	}
	return nil
}
