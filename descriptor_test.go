package nicless

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var described = Descriptor{
	Device: 0xfedcba9876543210, Transport: UD, QPN: 0xabcdef, PSN: 0x123456, QKey: 0x80000001,
	Memory: []RemoteMemory{
		{Name: "inbox", Addr: 0x7f00_0000_1000, Length: 1 << 40, RKey: 0xdeadbeef},
		{Name: "", Addr: 0, Length: 1, RKey: 1},
		{Name: "größe \"quoted\"\n", Addr: ^uint64(0), Length: ^uint64(0), RKey: ^uint32(0)},
	},
}

// The two forms of a Descriptor have exactly these bytes, because other programs may read
// them.
func TestDescriptorForms(t *testing.T) {
	d := Descriptor{Device: 0x1122334455667788, Transport: UC, QPN: 0x102030, PSN: 7, QKey: 9, Memory: []RemoteMemory{{Name: "m", Addr: 0x1000, Length: 2, RKey: 0x300}}}
	j, err := json.Marshal(d)
	require.NoError(t, err)
	require.JSONEq(t, `{"version":1,"device":"0x1122334455667788","transport":"UC","qpn":1056816,"psn":7,"qkey":9,
		"memory":[{"name":"m","addr":"0x0000000000001000","length":2,"rkey":768}]}`, string(j))
	b, err := d.MarshalBinary()
	require.NoError(t, err)
	require.Equal(t, "\x01\x00\x01\x00\x30\x20\x10\x00\x07\x00\x00\x00\x88\x77\x66\x55\x44\x33\x22\x11"+
		"\x09\x00\x00\x00\x01\x00\x00\x00"+
		"\x00\x10\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x01m", string(b))
	require.NoError(t, json.Unmarshal([]byte(`{"version":1,"qpn":5}`), &d))
	require.Equal(t, Descriptor{QPN: 5}, d, "RC, unless it says otherwise")
	require.ErrorContains(t, json.Unmarshal([]byte(`{"version":1,"transport":"XRC"}`), &d), `"XRC"`)
	b[24] = 3
	require.ErrorContains(t, d.UnmarshalBinary(b), "transport 3")
	b[24] = 1
	require.NoError(t, d.UnmarshalBinary(b))
	a := d
	a.Address = netip.MustParseAddr("192.0.2.1")
	j, err = json.Marshal(a)
	require.NoError(t, err)
	require.Contains(t, string(j), `"version":1`)
	require.Contains(t, string(j), `"address":"192.0.2.1"`)
	second, err := a.MarshalBinary()
	require.NoError(t, err)
	require.Equal(t, "\x02\x00"+string(b[2:28])+"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xc0\x00\x02\x01"+string(b[28:]), string(second))
	require.ErrorContains(t, d.UnmarshalBinary(append(append(second[:28:28], make([]byte, 16)...), b[28:]...)), "address ::")
	require.ErrorContains(t, json.Unmarshal([]byte(`{"version":1,"address":"fe80::1%eth0"}`), &d), "without a zone")
	require.Error(t, json.Unmarshal([]byte(`{"version":1,"address":"here"}`), &d))
	m, err := d.Find("m")
	require.NoError(t, err)
	require.Equal(t, d.Memory[0], m)
	_, err = d.Find("n")
	require.ErrorContains(t, err, `"n"`)
}

// addressed is described, on an engine with an address.
func addressed(a string) Descriptor {
	d := described
	d.Address = netip.MustParseAddr(a)
	return d
}

func TestDescriptorRoundTrip(t *testing.T) {
	for _, d := range []Descriptor{described, {}, {QPN: 1}, addressed("192.0.2.1"), addressed("2001:db8::1")} {
		j, err := json.Marshal(d)
		require.NoError(t, err)
		var fromJSON, fromBinary Descriptor
		require.NoError(t, json.Unmarshal(j, &fromJSON))
		require.Equal(t, d, fromJSON)
		b, err := d.MarshalBinary()
		require.NoError(t, err)
		require.NoError(t, fromBinary.UnmarshalBinary(b))
		require.Equal(t, d, fromBinary)
	}
}

// A Descriptor that the forms cannot represent is refused when it is written, not when it is
// read.
func TestDescriptorThatCannotBeWritten(t *testing.T) {
	for name, d := range map[string]Descriptor{
		"zone": {Address: netip.MustParseAddr("fe80::1%eth0")}, "zeros": {Address: netip.MustParseAddr("::ffff:0.0.0.0")},
		"QPN": {QPN: 1 << 24}, "PSN": {PSN: 1 << 24}, "transport": {Transport: 3},
		"256":   {Memory: []RemoteMemory{{Name: strings.Repeat("x", 256)}}},
		"UTF-8": {Memory: []RemoteMemory{{Name: "\xff"}}}, // JSON could not carry it
		"65536": {Memory: make([]RemoteMemory, 65536)},
	} {
		_, err := json.Marshal(d)
		require.ErrorContains(t, err, name)
		_, err = d.MarshalBinary()
		require.ErrorContains(t, err, name)
	}
}

// After a refusal the Descriptor is unchanged.
func TestDescriptorRefused(t *testing.T) {
	for _, j := range []string{``, `null`, `[]`, `{}`, `{"version":2}`, `{"version":1,"device":"x"}`, `{"version":1,"qpn":16777216}`,
		`{"version":1,"qpn":-1}`, `{"version":1,"device":12}`, `{"version":1,"memory":[{"addr":"0x10000000000000000"}]}`} {
		d := described
		require.Error(t, d.UnmarshalJSON([]byte(j)), j)
		require.Equal(t, described, d)
	}
	b, err := described.MarshalBinary()
	require.NoError(t, err)
	for n := range b {
		d := described
		require.Error(t, d.UnmarshalBinary(b[:n]), "%d bytes", n)
		require.Equal(t, described, d)
	}
	d := described
	require.Error(t, d.UnmarshalBinary(append(bytes.Clone(b), 0)))
	b[0] = 3
	require.ErrorContains(t, d.UnmarshalBinary(b), "version 3; this program knows 1 to 2")
	b, err = addressed("192.0.2.1").MarshalBinary()
	require.NoError(t, err)
	for n := range b {
		require.Error(t, d.UnmarshalBinary(b[:n]), "%d bytes", n)
		require.Equal(t, described, d)
	}
}

// FuzzDescriptor reads any bytes as a Descriptor, in both forms. The bytes are refused, or
// the Descriptor is the same after it is written and read again.
func FuzzDescriptor(f *testing.F) {
	for _, d := range []Descriptor{described, {}, addressed("192.0.2.1")} {
		b, _ := d.MarshalBinary()
		f.Add(b)
		j, _ := json.Marshal(d)
		f.Add(j)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var d Descriptor
		if d.UnmarshalBinary(in) == nil {
			if out, err := d.MarshalBinary(); err != nil || !bytes.Equal(in, out) {
				t.Fatalf("read then written:\n in %x\nout %x, %v", in, out, err)
			}
		} else if d.UnmarshalJSON(in) != nil {
			require.Zero(t, d)
			return
		}
		j, err := json.Marshal(d)
		require.NoError(t, err)
		var again Descriptor
		require.NoError(t, json.Unmarshal(j, &again))
		require.Equal(t, d, again)
	})
}
