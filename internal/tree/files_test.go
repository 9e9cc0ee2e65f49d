package tree

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// mostBytes is the most that a file of the tree may have. The largest is a golden vector of 330 KB.
const mostBytes = 400 << 10

// The tree has no programs that were built, and no large files: every clone has each for ever.
func TestNoBuiltFiles(t *testing.T) {
	atRoot(t)
	files := treeFiles(t)
	require.Greater(t, len(files), 1000, "files of the tree")
	for _, path := range files {
		info, err := os.Lstat(path)
		if err != nil || !info.Mode().IsRegular() {
			continue // it was removed and not yet committed, or is a link
		}
		assert.LessOrEqual(t, info.Size(), int64(mostBytes), "bytes of %s", path)
		assert.False(t, startsAsELF(t, path), "%s is a built program or library", path)
	}
}

// treeFiles returns the files that git has, or, where the tree came without git, all files.
func treeFiles(t *testing.T) (files []string) {
	if _, err := os.Stat(".git"); err == nil {
		out, err := exec.Command("git", "ls-files", "-z").Output()
		require.NoError(t, err)
		return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	}
	require.NoError(t, filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		files = append(files, path)
		return err
	}))
	return files
}

// startsAsELF reports whether a file is in the form of programs and libraries of Linux.
func startsAsELF(t *testing.T, path string) bool {
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	head := make([]byte, 4)
	_, _ = f.Read(head)
	return bytes.Equal(head, []byte("\x7fELF"))
}
