package bill

import (
	"debug/buildinfo"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"

	"golang.org/x/mod/module"
)

// licenseFiles are the names of files that licences of Go modules ask to be passed on.
var licenseFiles = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)(\.(md|txt))?$`)

// Licenses writes the licence of the tree, then those of Go and of all modules in a command. They are
// read from Go's root and the module cache, where the build has found the modules. A module without a
// licence is an error: nobody may pass it on.
func Licenses(w io.Writer, command, tree, cache, goroot string) error {
	info, err := buildinfo.ReadFile(command)
	if err != nil {
		return err
	}
	if err := copyLicenses(w, "nicless", tree); err != nil {
		return err
	}
	if err := copyLicenses(w, "Go, its runtime and standard library ("+info.GoVersion+")", goroot); err != nil {
		return err
	}
	for _, m := range modules(info) {
		path, err := module.EscapePath(m.Path)
		if err != nil {
			return err
		}
		version, err := module.EscapeVersion(m.Version)
		if err != nil {
			return err
		}
		if err := copyLicenses(w, m.Path+" "+m.Version, filepath.Join(cache, path+"@"+version)); err != nil {
			return err
		}
	}
	return nil
}

// copyLicenses writes a heading and the licences in a folder.
func copyLicenses(w io.Writer, name, folder string) error {
	list, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("licence of %s: %w", name, err)
	}
	found := false
	for _, file := range list {
		if file.IsDir() || !licenseFiles.MatchString(file.Name()) {
			continue
		}
		found = true
		text, err := os.ReadFile(filepath.Join(folder, file.Name()))
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "==== %s: %s\n\n%s\n", name, file.Name(), text); err != nil {
			return err
		}
	}
	if !found {
		return fmt.Errorf("licence of %s: %s has no file whose name says so", name, folder)
	}
	return nil
}
