//go:build linux && (amd64 || arm64)

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nicless/nicless/trace/record"
	"github.com/nicless/nicless/trace/text"
	"github.com/spf13/cobra"
)

// traceTarget returns the absolute path of the file that --out names, or an error if a trace cannot take its
// place. It is called before the program runs, because afterwards the work of the program would be lost. A
// symbolic link stays, and its file is replaced.
func traceTarget(out string) (string, error) {
	wrong := func(format string, args ...any) error {
		return usagef("--out FILE, a regular file or one that is not there yet",
			"record: --out %s: "+format, append([]any{text.Plain(out)}, args...)...)
	}
	if out == "" {
		return "", wrong("it names no file")
	}
	name, err := filepath.Abs(out) // the program may change its directory
	if err != nil {
		return "", wrong("%w", err)
	}
	if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		dir := filepath.Dir(name)
		if st, err := os.Stat(dir); err != nil || !st.IsDir() || os.IsPathSeparator(out[len(out)-1]) {
			return "", wrong("there is no such directory")
		}
		return name, nil
	}
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		return "", wrong("%w", err)
	}
	st, err := os.Stat(real)
	switch {
	case err != nil:
		return "", wrong("%w", err)
	case st.IsDir():
		return "", wrong("it is a directory")
	case !st.Mode().IsRegular():
		return "", wrong("it is no regular file, and would be replaced by one")
	}
	return real, nil
}

// keptHint says what can be done with raw records that are kept because no trace could be made of them.
func keptHint(dir string) string {
	return "the raw records are kept: nicless record --out FILE --from " + text.Plain(dir)
}

// recordFrom writes the trace of raw records that an earlier run has left, because it was killed or the disk
// was full. They stay there.
func recordFrom(c *cobra.Command, out, dir string) error {
	name, err := traceTarget(out)
	if err != nil {
		return err
	}
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return fmt.Errorf("record: --from %s: there is no such directory", text.Plain(dir))
	}
	if err := writeTrace(name, out, dir, c.ErrOrStderr()); err != nil {
		return fmt.Errorf("record: --from %s: %w", text.Plain(dir), err)
	}
	return nil
}

// writeTrace writes a trace of the raw records in a directory, and prints what is in it. out is what the user
// calls the file.
func writeTrace(name, out, dir string, stderr io.Writer) (err error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.raw"))
	if err != nil {
		return err
	}
	var files []record.File
	for _, p := range paths {
		f, err := os.Open(p)
		if err != nil {
			return err
		}
		defer f.Close()
		st, err := f.Stat()
		if err != nil {
			return err
		}
		files = append(files, record.File{Name: filepath.Base(p), In: f, Size: st.Size()})
	}
	temporary, err := os.CreateTemp(dir, "trace")
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name())
	s, err := record.Write(temporary, files)
	if err == nil {
		err = temporary.Chmod(0o644)
	}
	if err = errors.Join(err, temporary.Close()); err != nil {
		return err
	}
	if err := os.Rename(temporary.Name(), name); err != nil {
		return err
	}
	fmt.Fprintf(stderr, "nicless: %s: %d queue pairs of %d processes, %d WQEs, %d completions\n",
		text.Plain(out), s.Queues, s.Processes, s.WQEs, s.Completions)
	for _, n := range s.Notes() {
		fmt.Fprintf(stderr, "nicless: note: %s\n", n)
	}
	return nil
}
