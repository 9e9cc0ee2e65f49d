//go:build linux && (amd64 || arm64)

package record_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/nicless/nicless/trace"
	"github.com/stretchr/testify/require"
)

// checkWhole reads a trace to its end.
func checkWhole(t *testing.T, b []byte) {
	t.Helper()
	r, err := trace.NewReader(bytes.NewReader(b))
	require.NoError(t, err)
	for {
		var e trace.Event
		err := r.Next(&e)
		if err == io.EOF {
			return
		}
		require.NoError(t, err)
	}
}
