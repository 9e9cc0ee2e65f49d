//go:build linux && (amd64 || arm64)

package main

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cmd/nicless/internal/enginetest"
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

// If the engine ends before the program, the command fails: nothing was seen after that.
func TestSanitizedEngineEnds(t *testing.T) {
	for _, ends := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "e")
		end := enginetest.Run(t, path, nicless.Config{})
		var out bytes.Buffer
		stop, err := (&sanitizeFlags{}).sanitizeProgram(path, nil, &out)
		require.NoError(t, err)
		if ends {
			end()
			err = stop(nil)
			require.ErrorContains(t, err, "the engine has ended before the program")
			continue
		}
		require.NoError(t, stop(nil))
		require.Empty(t, out.String())
		end()
	}
}
