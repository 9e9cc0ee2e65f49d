package rendezvous

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/nicless/nicless/internal/control"
	"github.com/stretchr/testify/require"
)

func TestNamesComeBack(t *testing.T) {
	for _, value := range []string{"", "x", mark, strings.Repeat("\xff", 300)} {
		n := Names{Box: 77, List: []string{"a", "compute-é", strings.Repeat("n", MaxName)}}
		joined, err := Join(value, n)
		require.NoError(t, err)
		got, names := Split(joined)
		require.Equal(t, value, got)
		require.Equal(t, n, names)
		got, err = Join(value, Names{Box: 77})
		require.NoError(t, err)
		require.Equal(t, value, got, "no names")
	}
	_, err := Join(strings.Repeat("v", control.MaxAnnouncement), Names{Box: 1, List: []string{"a"}})
	require.ErrorContains(t, err, "1 names, with what the program announces itself, need 499 bytes; an announcement has at most 480")
}

// The end of an announcement that only looks like names is the program's own.
func TestWrongNames(t *testing.T) {
	good, err := Join("v", Names{Box: 1, List: []string{"ab"}})
	require.NoError(t, err)
	at := len(good) - tailSize
	for _, wrong := range []string{
		"", "v", mark, "\x00" + mark, "\xff\xff" + mark, "\x0a\x00" + mark,
		good[:at-1] + "@" + good[at:],                   // a character that no name has
		good[:at-3] + "\x00" + good[at-2:],              // an empty name
		good[:at-3] + "\x09" + good[at-2:],              // a name that ends behind the names
		good[:1] + strings.Repeat("\x00", 8) + good[9:], // box 0
		good[:at] + "\x08\x00" + mark,                   // without names
		good[:at] + "\x09\x00" + mark,
	} {
		value, n := Split(wrong)
		require.Equal(t, wrong, value)
		require.Empty(t, n, "%q", wrong)
	}
}

func TestCheckName(t *testing.T) {
	for name, why := range map[string]string{
		"": "empty name; 1 to 63 bytes are possible", strings.Repeat("x", 64): "name of 64 bytes; at most 63 are possible",
		"a\xff": "is not UTF-8", "a@b": "has @", "a b": "a space", "a\n": "cannot be printed", "\u202e": "cannot be printed",
	} {
		require.ErrorContains(t, CheckName(name), why)
	}
	require.NoError(t, CheckName("réseau/7:a"))
}

func TestWrongMessages(t *testing.T) {
	for _, c := range []struct{ b, why string }{
		{"", "message of 0 bytes; 10 to 184"}, {"\x00\x0212345678"[:9], "message of 9 bytes"}, {strings.Repeat("\x02", 185), "message of 185 bytes"},
		{"\x00\x0012345678", "kind 0; 1 to 6"}, {"\x00\x0712345678", "kind 7; 1 to 6"}, {"\x00\x0112345678", "empty name"},
		{"\x01a\x0212345678", "kind 2 with a name"}, {"\x01@\x0112345678", "has @"}, {"\x02a\x0112345678", "with a name of 2"}, {"\xffa\x0112345678", "with a name of 255"},
	} {
		_, err := ParseMessage(c.b)
		require.ErrorContains(t, err, c.why)
	}
	longest := Message{strings.Repeat("n", MaxName), Dial, 1, strings.Repeat("x", MaxDialBody)}
	require.Len(t, longest.Append(nil), control.MaxMessageValue)
	require.Equal(t, strings.Repeat("é", MaxBody/2), Text(strings.Repeat("é", 200)))
	require.Equal(t, "x"+strings.Repeat("é", (MaxBody-1)/2), Text("x"+strings.Repeat("é", 200)), "no half character")
}

// The bytes on the links stay what they are.
func TestDatagramBytes(t *testing.T) {
	b := (&Datagram{0x0123456789abcdef, 0x1122334455667788, 0x99aabbccddeeff00, 1001, "hello"}).Put()
	require.Equal(t, "013d0103"+strings.Repeat("00", 32)+"00026e6c"+"00010005"+"000003e9"+"0123456789abcdef"+"99aabbccddeeff00"+
		"1122334455667788"+hex.EncodeToString([]byte("hello"))+strings.Repeat("00", Size-valueAt-5), hex.EncodeToString(b[:]))
	require.True(t, Is(b[:]))
	require.False(t, Is(b[:255]))
	for at, why := range map[int]string{0: "begins with 00", 2: "begins with", 3: "begins with", 40: "version 257", 42: "message of 261 bytes"} {
		wrong := b
		wrong[at] ^= 1
		_, err := ParseDatagram(&wrong)
		require.ErrorContains(t, err, why)
	}
	for _, at := range []int{1, 37} {
		other := b
		other[at]++
		require.False(t, Is(other[:]), "of another vendor")
	}
}

func FuzzDatagram(f *testing.F) {
	b := (&Datagram{1, 2, 3, 4, "v"}).Put()
	f.Add(b[:])
	f.Fuzz(func(t *testing.T, in []byte) {
		if !Is(in) {
			return
		}
		if d, err := ParseDatagram((*[Size]byte)(in)); err == nil {
			again := d.Put()
			back, err := ParseDatagram(&again)
			require.NoError(t, err)
			require.Equal(t, d, back)
		}
	})
}

// FuzzMessage checks that ParseMessage accepts exactly what Append writes.
func FuzzMessage(f *testing.F) {
	f.Add(string((&Message{"", Accept, 5, "body"}).Append(nil)))
	f.Fuzz(func(t *testing.T, in string) {
		if m, err := ParseMessage(in); err == nil {
			require.Equal(t, in, string(m.Append(nil)))
			name, dials := Dialled(in)
			require.Equal(t, m.Kind == Dial, dials)
			require.Equal(t, m.Name, name)
		}
	})
}

// FuzzNames checks that Split finds only what Join writes.
func FuzzNames(f *testing.F) {
	s, _ := Join("v", Names{1, []string{"a"}})
	f.Add(s)
	f.Fuzz(func(t *testing.T, in string) {
		if len(in) > control.MaxAnnouncement {
			return
		}
		value, n := Split(in)
		again, err := Join(value, n)
		require.NoError(t, err)
		require.Equal(t, in, again)
	})
}
