//go:build linux && (amd64 || arm64)

package finder

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A system is a tree of files, sysfs and devices. Tests have one of their own.
type system struct {
	root  string
	wrote func(path, value string) // after each write; nil outside of tests
}

func (s system) at(path string) string { return filepath.Join(s.root, path) }

func (s system) read(path string) (string, error) {
	b, err := os.ReadFile(s.at(path))
	return strings.TrimSpace(string(b)), err
}

func (s system) number(path string) (uint64, error) {
	text, err := s.read(path)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(text, 0, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	return n, nil
}

// write writes a value as echo does: some files want the line's end.
func (s system) write(path, value string) error {
	f, err := os.OpenFile(s.at(path), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value + "\n")
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %q: %w", value, err)
	}
	if s.wrote != nil {
		s.wrote(path, value)
	}
	return nil
}

// A setting is a value for a file.
type setting struct{ file, value string }

// set writes files of a folder in this order.
func (s system) set(dir string, list ...setting) error {
	for _, w := range list {
		if err := s.write(filepath.Join(dir, w.file), w.value); err != nil {
			return err
		}
	}
	return nil
}

// A driver may take 20 s until what it makes is there, with a look in each 10 ms. Looks are counted, and not
// seconds: a machine to which a busy host gives no processor does not look.
const (
	looks = 2000
	pause = 10 * time.Millisecond
)

// wait waits until exactly one file has a name of this pattern, and returns that name.
func (s system) wait(pattern, what string) (string, error) {
	for range looks {
		found, _ := filepath.Glob(s.at(pattern))
		if len(found) == 1 {
			return filepath.Base(found[0]), nil
		}
		if len(found) > 1 {
			return "", fmt.Errorf("%d are %s: %s; this laboratory knows one", len(found), what, found)
		}
		time.Sleep(pause)
	}
	return "", fmt.Errorf("no %s after %d looks, one in %v: %s", what, looks, pause, pattern)
}
