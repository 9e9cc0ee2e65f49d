//go:build linux && (amd64 || arm64)

package record_test

import (
	"testing"

	"github.com/nicless/nicless/trace/record"
	"github.com/stretchr/testify/require"
)

// A record that is too long for the memory is refused. The limits are of all files together.
func TestLimits(t *testing.T) {
	files := rawFiles(t, "rc_pingpong")
	parts := 0
	for _, f := range files {
		for _, i := range at(f, 0) {
			if f[i+4] != kindPost {
				parts++
			}
		}
		parts += 6 // each process posts 6 WQEs of one block
	}
	record.SetMost(t, parts, 2)
	_, _, err := write(files...)
	require.NoError(t, err)
	record.SetMost(t, parts-1, 2)
	_, _, err = write(files...)
	require.ErrorContains(t, err, "b.raw: record at byte ")
	require.ErrorContains(t, err, "blocks of WQEs, pieces of payload, completions and other records: record a shorter run")
	record.SetMost(t, parts, 1)
	_, _, err = write(files...)
	require.ErrorContains(t, err, "there are more than 1 queue pairs, counted again after each reset")
	record.SetMost(t, parts, 4)
	_, _, err = write(peers(t))
	require.ErrorContains(t, err, "there are more than 4 queue pairs")
	record.SetMost(t, parts, 5)
	_, _, err = write(peers(t))
	require.NoError(t, err)
}
