//go:build linux && (amd64 || arm64)

package record_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	kindQP     = 4
	kindModify = 6
)

// peers has a queue pair that is reset after three messages, and then sends two to another peer.
func peers(t *testing.T) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/raw/peers.1.raw")
	require.NoError(t, err)
	return b
}

// A queue pair that is reset may have another peer, and its counts begin again.
func TestSecondPeer(t *testing.T) {
	b, s, err := write(peers(t))
	require.NoError(t, err)
	require.Equal(t, 4, s.Queues)
	require.Equal(t, 5, s.WQEs)
	require.Equal(t, 10, s.Completions)
	require.Empty(t, s.Notes())
	r := replayed(t, b)
	require.Empty(t, r.Differences)
	require.EqualValues(t, 5, r.WQEs)
	require.EqualValues(t, 10, r.CQEs)
}

// A replay leaves out whole queue pairs: if one peer is not in the record, all lives are left out.
func TestSecondPeerElsewhere(t *testing.T) {
	b := peers(t)
	list := at(b, kindQP)
	last := binary.LittleEndian.Uint32(b[list[len(list)-1]+32+24:])
	for _, i := range at(b, kindModify) { // the second peer of the first queue pair becomes unknown
		if binary.LittleEndian.Uint32(b[i+32:]) == last {
			binary.LittleEndian.PutUint32(b[i+32:], last^1)
		}
	}
	b, s, err := write(bytes.Clone(b))
	require.NoError(t, err)
	require.Equal(t, 5, s.Unpaired)
	r := replayed(t, b)
	require.Empty(t, r.Differences)
	require.Zero(t, r.WQEs)
	require.NotEmpty(t, r.LeftOut)
}
