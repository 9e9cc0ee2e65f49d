package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// An engine has the GUID that it is given if that is an EUI-64 of one device, and by chance one of that kind.
func TestGUIDs(t *testing.T) {
	const vendors = 0x248a070300000001
	e, err := New(Config{GUID: vendors})
	require.NoError(t, err)
	require.EqualValues(t, vendors, e.GUID())
	for range 64 {
		e, err := New(Config{})
		require.NoError(t, err)
		require.NoError(t, CheckGUID(e.GUID(), 1))
		require.EqualValues(t, 2, e.GUID()>>56&3, "administered locally, of one device")
	}
	for _, r := range []struct {
		guid    uint64
		devices int
		speaks  string
	}{
		{0, 1, "GUID 0 is reserved"},
		{^uint64(0), 1, "first byte, ff, is set"},
		{0x0100000000000000, 1, "first byte, 01, is set"},
		{0x02ffffffffffffff, 2, "that of the last, 0300000000000000, is of a group"},
		{0xfeffffffffffffff, 32, "of a group"},
	} {
		require.ErrorContains(t, CheckGUID(r.guid, r.devices), r.speaks)
	}
	require.NoError(t, CheckGUID(0x02ffffffffffffff, 1))
	_, err = New(Config{GUID: 0x0100000000000000})
	require.ErrorContains(t, err, "engine: GUID 0100000000000000 is of a group")
	_, err = New(Config{DeviceNames: "a/b"})
	require.ErrorContains(t, err, `engine: device name "a/b"`)
}
