//go:build linux

package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/nicless/nicless/internal/tracetest"
	"github.com/nicless/nicless/trace"
	"github.com/stretchr/testify/require"
	"os"
)

// A disk that is full is an error that names the file and the event.
func TestTraceFullDisk(t *testing.T) {
	x := tracetest.New(t)
	for range 20000 { // more than the output buffers
		x.Add(trace.Event{Kind: trace.KindClient, Queue: 1, Data: []byte("client")})
	}
	name := filepath.Join(t.TempDir(), "long.nictrace")
	require.NoError(t, os.WriteFile(name, tracetest.File(t, x.Events), 0o644))
	for _, form := range formNames() {
		status, _, errs := shown(t, name, "-o", "/dev/full", "--format", form)
		require.Equal(t, 1, status, form)
		require.Regexp(t, `trace: /dev/full, at event \d+: write /dev/full: no space left on device`, errs, form)
		require.Equal(t, 1, strings.Count(errs, "no space left"), "%s: %s", form, errs)
	}
}
