package mad

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Arguments of IB_USER_MAD_REGISTER_AGENT as Debian 12's infiniband-diags pass them, from method_mask on.
func TestParseRegister(t *testing.T) {
	for _, row := range []struct {
		name, bytes string
		want        Registration
	}{
		{"ibaddr, subnet management", "00000000000000000000000000000000 00 01 01 001405 00 b4", Registration{Class: 1, Version: 1, OUI: 0x1405}},
		{"ibaddr, directed", "00000000000000000000000000000000 00 81 01 001405 00 b4", Registration{Class: 0x81, Version: 1, OUI: 0x1405}},
		{"ibaddr, administration", "00000000000000000000000000000000 01 03 02 001405 01 b4", Registration{QPN: 1, Class: 3, Version: 2, OUI: 0x1405, RMPP: 1}},
		{"perfquery", "00000000000000000000000000000000 01 04 01 001405 00 00", Registration{QPN: 1, Class: 4, Version: 1, OUI: 0x1405}},
	} {
		require.Equal(t, row.want, ParseRegister(append(make([]byte, 4), unhex(t, row.bytes)...)), row.name)
	}
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	require.NoError(t, err)
	return b
}

// The fields of a header are where struct ib_user_mad_hdr has them.
func TestUser(t *testing.T) {
	b := unhex(t, "01000000 6e000000 e8030000 03000000 40010000 00000001 80010000 0002 05 06 01 07 08 09 "+
		"fe800000000000000002c90300000010 000abcde 0b00 000000000000")
	u := User{ID: 1, Status: 110, Timeout: 1000, Retries: 3, Length: 320, QPN: 1, QKey: 0x80010000, LID: 2, SL: 5, PathBits: 6,
		GRH: true, GIDIndex: 7, HopLimit: 8, TrafficClass: 9, GID: [16]byte(unhex(t, "fe800000000000000002c90300000010")),
		FlowLabel: 0xabcde, PKeyIndex: 11}
	require.Equal(t, u, ParseUser(b))
	out := make([]byte, UserSize)
	u.Put(out)
	require.Equal(t, b, out)
}

// The bytes of attributes, as chapters 14 and 15 of the specification lay them out.
func TestAttributes(t *testing.T) {
	info := NodeInfo{Type: NodeCA, Ports: 1, SystemGUID: 0x5a4e4cfffe000001, GUID: 0x5a4e4cfffe000002, PortGUID: 0x5a4e4cfffe000003,
		Partitions: 128, Device: 0x1019, Revision: 5, LocalPort: 1, Vendor: 0x2c9}
	require.Equal(t, unhex(t, "01010101 5a4e4cfffe000001 5a4e4cfffe000002 5a4e4cfffe000003 0080 1019 00000005 01 0002c9"), info.Bytes())
	port := PortInfo{GIDPrefix: 0xfe80000000000000, LID: 2, MasterLID: 1, Caps: 0x14000, LocalPort: 1, State: 4, Physical: 5, GUIDs: 8}
	require.Equal(t, unhex(t, "0000000000000000 fe80000000000000 0002 0001 00014000 0000 0000 01 03 03 02 74 52 00 47 50 10 00 00 00 05 00 10"+
		"0000 0000 0000 08 12 12 00 0000 00 000000 0000 23 03"), port.Bytes())
	require.Equal(t, unhex(t, "0000000000000010 0000000000000000 0000004d f3"), SMInfo(16, 77)[:21])
	path := Path{To: [16]byte{0xfe, 0x80, 15: 3}, From: [16]byte{0xfe, 0x80, 15: 2}, ToLID: 3, FromLID: 2}
	require.Equal(t, unhex(t, "0000000000000000 fe800000000000000000000000000003 fe800000000000000000000000000002 0003 0002 00000000 00 81 ffff"+
		"0000 85 90 92 00 000000000000"), path.Bytes())
	require.Equal(t, path, ParsePath(path.Bytes()))
}

// Counters that do not fit are at their greatest value, and do not begin again.
func TestPortCounters(t *testing.T) {
	c := Counters{SymbolErrors: 1 << 20, LinkDowned: 300, LocalIntegrity: 99, Overruns: 2, XmitData: 1 << 40, RcvPackets: 7}
	b := c.PortCounters(1, 0xffff)
	require.Equal(t, unhex(t, "00 01 ffff ffff 00 ff"), b[:8])
	require.Equal(t, byte(0xf2), b[19])
	require.Equal(t, unhex(t, "ffffffff 00000000 00000000 00000007"), b[24:40])
	require.Equal(t, unhex(t, "0000010000000000"), c.Extended(1, 0)[8:16])
}

// A table says how long its records are, which are padded to a multiple of 8 bytes.
func TestTable(t *testing.T) {
	b := Table(make([]byte, Size), [][]byte{{1, 2, 3}, {4, 5, 6}})
	require.Len(t, b, SADataAt+16)
	require.Equal(t, uint8(GetTableResp), b[3])
	require.Equal(t, unhex(t, "01 01 07 00 00000001 00000024"), b[24:36])
	require.Equal(t, uint16(1), be.Uint16(b[RecordOffset:]))
	require.Equal(t, []byte{1, 2, 3, 0, 0, 0, 0, 0, 4, 5, 6, 0, 0, 0, 0, 0}, b[SADataAt:])
}
