package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFilesAreUpToDate(t *testing.T) {
	for name, generate := range files {
		got, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		assert.Equal(t, string(generate()), string(got), "%s: run go generate ./internal/opcodes", name)
	}
}
