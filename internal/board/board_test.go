package board

import (
	"slices"
	"strings"
	"testing"

	"github.com/nicless/nicless/internal/control"
	"github.com/stretchr/testify/require"
)

func TestListsComeBack(t *testing.T) {
	list := []Entry{{1, 1000, "a"}, {2, AllUsers, strings.Repeat("\x00\xff", control.MaxAnnouncement/2)}, {0xffffffff, 0, "z"}}
	b, left := Append([]byte("before"), list, Max)
	require.Zero(t, left)
	require.Equal(t, "before", string(b[:6]))
	got, err := Parse(b[6:])
	require.NoError(t, err)
	require.Equal(t, list, got)
	got, err = Parse(nil)
	require.NoError(t, err)
	require.Empty(t, got)
}

// The entries that do not fit are counted, and the others are a list.
func TestWhatFits(t *testing.T) {
	var list []Entry
	for i := range 20 {
		list = append(list, Entry{uint32(i + 1), uint32(i), strings.Repeat("x", control.MaxAnnouncement)})
	}
	const each = headSize + control.MaxAnnouncement
	for _, c := range []struct{ most, fit int }{{Max, (Max - beginSize) / each}, {beginSize + 2*each, 2}, {beginSize + 2*each - 1, 1}, {beginSize + each - 1, 0}, {3, 0}, {0, 0}, {beginSize + 20*each, 20}} {
		b, left := Append(nil, list, c.most)
		require.Equal(t, 20-c.fit, left, "%d bytes", c.most)
		require.Len(t, b, min(c.fit, 1)*beginSize+c.fit*each)
		if c.most <= Max {
			got, err := Parse(b)
			require.NoError(t, err)
			require.True(t, slices.Equal(list[:c.fit], got))
		}
	}
}

func TestWrongLists(t *testing.T) {
	const v2, u = "\x00\x00\x00\x00\x00\x00\x00\x02", "\x00\x00\x03\xe8"
	for _, c := range []struct{ bytes, why string }{
		{v2, "announcements without an entry"},
		{v2 + "\x00\x00\x00\x01\x00", "5 bytes at the end"},
		{v2 + "\x00\x00\x00\x00" + u + "\x00\x01x", "client 0 after that of client 0"},
		{v2 + "\x00\x00\x00\x02" + u + "\x00\x01x\x00\x00\x00\x02" + u + "\x00\x01x", "client 2 after that of client 2"},
		{v2 + "\x00\x00\x00\x02" + u + "\x00\x00", "client 2 announces 0 bytes; 1 to 480 are possible"},
		{v2 + "\x00\x00\x00\x02" + u + "\x01\xe1" + strings.Repeat("x", 481), "client 2 announces 481 bytes; 1 to 480 are possible"},
		{v2 + "\x00\x00\x00\x02" + u + "\x00\x02x", "client 2 announces 2 bytes; there are 1"},
		{"\x00\x00\x00\x01\x00\x01x", "another version: they begin with 00000001000178, those of version 2 with 0000000000000002"},
		{"\x00\x00\x00\x00\x00\x00\x00\x03", "another version: they begin with 0000000000000003"},
		{"\x00", "another version: they begin with 00,"},
		{strings.Repeat("x", Max+1), "8001 bytes; at most 8000 are possible"},
	} {
		_, err := Parse([]byte(c.bytes))
		require.ErrorContains(t, err, c.why)
	}
}

// FuzzParse checks that Parse accepts exactly what Append writes.
func FuzzParse(f *testing.F) {
	b, _ := Append(nil, []Entry{{1, 0, "a"}, {7, AllUsers, "bcd"}}, Max)
	f.Add(b)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := Parse(b)
		if err != nil {
			return
		}
		again, left := Append(nil, list, Max)
		require.Zero(t, left)
		require.Equal(t, string(b), string(again))
	})
}
