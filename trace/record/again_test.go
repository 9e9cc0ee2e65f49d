//go:build linux && (amd64 || arm64)

package record_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	kindKey  = 5
	kindGone = 7
)

// A device gives a number again as soon as it is free. The thread that has destroyed the first object may
// note that after another thread has noted the second one.
func TestNumberIsUsedAgain(t *testing.T) {
	files := rawFiles(t, "rc_pingpong")
	i := at(files[0], kindKey)[0]
	size := binary.LittleEndian.Uint32(files[0][i:])
	key := bytes.Clone(files[0][i : i+int(size)])
	earlier := bytes.Clone(key)
	binary.LittleEndian.PutUint64(earlier[16:], math.MaxUint64) // the id
	gone := bytes.Clone(earlier[:32])
	binary.LittleEndian.PutUint32(gone, 32)
	gone[4], gone[5] = kindGone, 0
	raw := bytes.Clone(files[0][:i])
	raw = append(append(append(append(raw, earlier...), key...), gone...), files[0][i+int(size):]...)
	b, s, err := write(raw, files[1])
	require.NoError(t, err)
	require.Zero(t, s.Taken)
	r := replayed(t, b)
	require.Empty(t, r.Differences)
	require.EqualValues(t, 24, r.CQEs)
}

// The device is free to use the numbers of a process again that was killed.
func TestNumbersOfKilledProcess(t *testing.T) {
	files := rawFiles(t, "rc_pingpong")
	killed := bytes.Clone(files[0])
	list := at(killed, 0)
	for k, i := range list { // long ago: it ends before the others begin
		binary.LittleEndian.PutUint64(killed[i+8:], uint64(k+1))
	}
	binary.LittleEndian.PutUint64(killed[16:], 1)
	first := list[len(list)-1]
	for _, i := range at(killed, kindGone) {
		first = min(first, i)
	}
	b, s, err := write(killed[:first], files[0], files[1])
	require.NoError(t, err)
	require.Zero(t, s.Taken)
	require.Equal(t, 1, s.Killed)
	require.Equal(t, 12, s.WQEs)
	require.Empty(t, replayed(t, b).Differences)
}

// If a process of another device has the number, which is still used, the second object is left out.
func TestNumberOfAnotherDevice(t *testing.T) {
	files := rawFiles(t, "rc_pingpong")
	_, s, err := write(files[0], files[0], files[1])
	require.NoError(t, err)
	require.Positive(t, s.Taken)
}
