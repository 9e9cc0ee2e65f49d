//go:build linux && (amd64 || arm64)

package main

import (
	"bytes"
	"testing"

	"github.com/nicless/nicless/sanitize"
	"github.com/stretchr/testify/require"
)

// Mistakes of other programs of a shared engine are neither printed nor counted.
func TestSanitizedProgramsOnly(t *testing.T) {
	for pid, errors := range map[uint64]uint64{4711: 2, 4712: 0} {
		in, err := openTrace(badTrace(t, true), nil)
		require.NoError(t, err)
		var out bytes.Buffer
		x := newSanitizeWriter(&out, sanitize.Options{}, false)
		x.choose(func(p uint64) bool { return p == pid })
		require.NoError(t, x.read(in))
		require.Equal(t, errors, x.errors)
		require.Equal(t, errors > 0, x.failure("run") != nil)
		require.Equal(t, errors > 0, out.Len() > 0)
		require.NoError(t, in.Close())
	}
}
