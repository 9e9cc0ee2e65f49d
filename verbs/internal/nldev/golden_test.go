//go:build linux && (amd64 || arm64)

package nldev

import (
	"bufio"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// requests returns the requests that real programs have sent, by the name of the program: iproute2's rdma of
// two versions with all its commands, and libibverbs with librdmacm.
func requests(t testing.TB) map[string][][]byte {
	t.Helper()
	files, err := filepath.Glob("testdata/*.hex")
	require.NoError(t, err)
	require.Len(t, files, 3)
	all := make(map[string][][]byte)
	for _, name := range files {
		f, err := os.Open(name)
		require.NoError(t, err)
		for lines := bufio.NewScanner(f); lines.Scan(); {
			b, err := hex.DecodeString(lines.Text())
			require.NoError(t, err)
			all[name] = append(all[name], b)
		}
		require.NoError(t, f.Close())
		require.NotEmpty(t, all[name])
	}
	return all
}

// Every request of a real program is one message whose attributes the kernel's strict checks accept too.
func TestRequestsOfPrograms(t *testing.T) {
	commands := make(map[int]bool)
	for name, list := range requests(t) {
		for _, b := range list {
			m, rest, ok := Next(b)
			require.True(t, ok, "%s: %x", name, b)
			require.Empty(t, rest)
			require.True(t, m.Executes())
			cmd, ok := m.Command()
			require.True(t, ok)
			commands[cmd] = true
			attrs, err := Parse(m, true)
			require.NoError(t, err, "%s: %x", name, b)
			if index, ok := attrs.Uint32(AttrDevIndex); ok {
				require.Zero(t, index, "there was one device")
			}
		}
	}
	for _, cmd := range []int{1, 2, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 22, 23, 24, 26} {
		require.True(t, commands[cmd], "command %d", cmd)
	}
}

// The values of attributes are those that the programs were told to send.
func TestValues(t *testing.T) {
	parse := func(text string) Attributes {
		b, err := hex.DecodeString(text)
		require.NoError(t, err)
		m, _, ok := Next(b)
		require.True(t, ok)
		attrs, err := Parse(m, true)
		require.NoError(t, err)
		return attrs
	}
	a := parse("240000000f140100010000000700000008000100000000000b0045007576657262730000")
	require.Equal(t, "uverbs", a.Text(AttrCharDevType))
	a = parse("280000000a140500010000000000000008000100000000000800030001000000080015002301" + "0000")
	number, ok := a.Uint32(AttrResLQPN)
	require.True(t, ok)
	require.Equal(t, uint32(0x123), number)
	require.False(t, a.Has(AttrResPDN))
	require.False(t, a.Flag(AttrDriverDetails))
}

// attribute returns the bytes of one attribute.
func attribute(kind uint16, value ...byte) []byte {
	b := ne.AppendUint16(ne.AppendUint16(nil, uint16(4+len(value))), kind)
	b = append(b, value...)
	return append(b, make([]byte, align(len(b))-len(b))...)
}

// Wrong attributes are refused, or ignored, as by nla_parse in the kernel's lib/nlattr.c.
func TestMistakes(t *testing.T) {
	long := make([]byte, MaxName+2)
	for i := range long {
		long[i] = 'a'
	}
	for name, c := range map[string]struct {
		body            []byte
		strict, liberal unix.Errno
		text            string
	}{
		"unknown":          {attribute(maxAttr+1, 1), unix.EINVAL, 0, "Unknown attribute type"},
		"zero":             {attribute(0, 1), unix.EINVAL, 0, "Unknown attribute type"},
		"short number":     {attribute(AttrDevIndex, 1, 2), unix.EINVAL, unix.ERANGE, "invalid attribute length"},
		"long number":      {attribute(AttrDevIndex, 1, 0, 0, 0, 5), unix.EINVAL, 0, "invalid attribute length"},
		"no number":        {attribute(AttrDevIndex), unix.EINVAL, unix.ERANGE, "invalid attribute length"},
		"flagged":          {attribute(AttrDevIndex|flagNested, 1, 0, 0, 0), unix.EINVAL, 0, "NLA_F_NESTED not expected"},
		"not flagged":      {attribute(attrHWCounters), unix.EINVAL, 0, "NLA_F_NESTED is missing"},
		"no text":          {attribute(AttrDevName), unix.EINVAL, unix.EINVAL, "Attribute failed policy validation"},
		"text without end": {attribute(AttrDevName, 'a'), unix.EINVAL, unix.EINVAL, "Attribute failed policy validation"},
		"long text":        {attribute(AttrDevName, append(long, 0)...), unix.EINVAL, unix.EINVAL, "Attribute failed policy validation"},
		"bytes after":      {append(attribute(AttrDevIndex, 1, 0, 0, 0), 1, 2, 3), unix.EINVAL, 0, "bytes leftover after parsing attributes"},
		"too long":         {[]byte{200, 0, 1, 0, 1, 0, 0, 0}, unix.EINVAL, 0, "bytes leftover after parsing attributes"},
		"too short":        {[]byte{3, 0, 1, 0}, unix.EINVAL, 0, "bytes leftover after parsing attributes"},
	} {
		t.Run(name, func(t *testing.T) {
			m := Message{Raw: append(make([]byte, HeaderSize), c.body...)}
			_, err := Parse(m, true)
			require.Equal(t, &ParseError{c.strict, c.text}, err)
			_, err = Parse(m, false)
			if c.liberal == 0 {
				require.NoError(t, err)
				return
			}
			require.Equal(t, c.liberal, err.(*ParseError).Errno)
		})
	}
}

// The last one of two attributes counts, and the last one of a message need not be padded.
func TestTwice(t *testing.T) {
	body := append(attribute(AttrDevIndex, 1, 0, 0, 0), attribute(AttrDevIndex, 2, 0, 0, 0)...)
	body = append(body, attribute(AttrDriverDetails, 1)[:5]...)
	a, err := Parse(Message{Raw: append(make([]byte, HeaderSize), body...)}, true)
	require.NoError(t, err)
	index, ok := a.Uint32(AttrDevIndex)
	require.True(t, ok)
	require.Equal(t, uint32(2), index)
	require.True(t, a.Flag(AttrDriverDetails))
}

// Acknowledgements are those of netlink_ack in the kernel's net/netlink/af_netlink.c.
func TestAcknowledgements(t *testing.T) {
	raw, _ := hex.DecodeString("1800000001140500110000000000000008000100" + "00000000")
	m, _, ok := Next(raw)
	require.True(t, ok)
	for want, got := range map[string][]byte{
		"24000000" + "0200" + "0001" + "11000000" + "07000000" + "00000000" + "18000000011405001100000000000000":                                                AppendAck(nil, m, 7, AckStyle{}, 0, ""),
		"2c000000" + "0200" + "0000" + "11000000" + "07000000" + "eaffffff" + "18000000011405001100000000000000" + "0800010000000000":                           AppendAck(nil, m, 7, AckStyle{}, unix.EINVAL, "no"),
		"24000000" + "0200" + "0001" + "11000000" + "07000000" + "eaffffff" + "18000000011405001100000000000000":                                                AppendAck(nil, m, 7, AckStyle{Capped: true}, unix.EINVAL, "no"),
		"2c000000" + "0200" + "0003" + "11000000" + "07000000" + "eaffffff" + "18000000011405001100000000000000" + "07000100" + "6e6f0000":                      AppendAck(nil, m, 7, AckStyle{Capped: true, Extended: true}, unix.EINVAL, "no"),
		"34000000" + "0200" + "0002" + "11000000" + "07000000" + "eaffffff" + "18000000011405001100000000000000" + "0800010000000000" + "07000100" + "6e6f0000": AppendAck(nil, m, 7, AckStyle{Extended: true}, unix.EINVAL, "no"),
		"14000000" + "0300" + "0200" + "11000000" + "07000000" + "f0ffffff":                                                                                     AppendDone(nil, m.Header, 7, unix.EBUSY),
		"10000000" + "0400" + "0000" + "00000000" + "00000000":                                                                                                  AppendOverrun(nil),
	} {
		require.Equal(t, want, hex.EncodeToString(got))
	}
}

// A device's number is as the kernel's huge_encode_dev makes it.
func TestCharDevNumber(t *testing.T) {
	l := CharDev{Name: "uverbs0", ABI: 1, Major: 231, Minor: 192, DriverID: 1}.Attributes()
	require.Equal(t, "0800490001000000"+"0c004800c0e7000000000000"+"0c0047000100000000000000"+
		"0c004600"+"7576657262733000", hex.EncodeToString(l.appendTo(nil)))
	l = CharDev{Name: "u", Major: 231, Minor: 0x4c0}.Attributes()
	require.Equal(t, "0c004800c0e7400000000000", hex.EncodeToString(l.appendTo(nil)[:12]))
}
