package summary

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/nicless/nicless/state"
	"github.com/stretchr/testify/require"
)

// some is a summary all of whose figures differ.
func some(programs int) *state.Summary {
	s := &state.Summary{
		Time: 1, WQEs: 2, Bytes: 3, Failed: 4, Explains: 5, Resent: 6, Timeouts: 7, PID: 8, Clients: 9, Running: 10, Queues: 11,
		Linked: 12, Waiting: 13, Faults: 14, PeersUp: 15, PeersDown: 16, Threads: 17, Disclosed: true, Stuck: true, Host: "é",
	}
	for i := range uint32(programs) {
		s.Programs = append(s.Programs, state.Program{PID: i + 1, Queues: 2, Linked: 3, Waiting: 4, WQEs: 5, Bytes: 6, Failed: 7,
			Name: fmt.Sprintf("program %8d", i)})
	}
	return s
}

// collect asks for all parts, and returns what comes.
func collect(t *testing.T, s *state.Summary) (*state.Summary, int) {
	t.Helper()
	var c Collection
	for n := 0; ; n++ {
		part, missing := c.Next()
		if !missing {
			return c.Summary, n
		}
		h, body, err := Parse(Put(s, 9, 77, part))
		require.NoError(t, err)
		require.Equal(t, uint64(77), h.ID)
		require.NoError(t, c.Add(h, body))
	}
}

// A summary arrives as it was, in as many parts as it needs, with the most programs that there can be.
func TestSummaryComesBack(t *testing.T) {
	for programs, parts := range map[int]int{0: 1, 1: 2, 3: 2, 4: 3, state.MaxPrograms: MaxParts} {
		got, n := collect(t, some(programs))
		require.Equal(t, some(programs), got)
		require.Equal(t, parts, n)
	}
	require.Equal(t, 8, MaxParts)
	many := some(state.MaxPrograms + 5)
	many.Host = strings.Repeat("h", 200)
	got, _ := collect(t, many)
	require.Len(t, got.Programs, state.MaxPrograms)
	require.Equal(t, strings.Repeat("h", state.MaxHost), got.Host)
	require.Empty(t, Put(some(0), 1, 1, 1), "no such part")
}

// The bytes on the links stay what they are.
func TestBytes(t *testing.T) {
	eight := func(v byte) string { return fmt.Sprintf("%02x", v) + strings.Repeat("00", 7) }
	four := func(v byte) string { return fmt.Sprintf("%02x", v) + "000000" }
	var words string
	for v := range byte(7) {
		words += eight(v + 1)
	}
	for v := range byte(9) {
		words += four(v + 8)
	}
	id := "0807060504030201"
	figures := "02010002" + "09000000" + id + words + "1100" + "0300" + "02" + "c3a9" + strings.Repeat("00", 61)
	s := some(1)
	require.Equal(t, figures, hex.EncodeToString([]byte(Put(s, 9, 0x0102030405060708, 0))))
	program := "02010102" + "09000000" + id + four(1) + four(2) + four(3) + four(4) + eight(5) + eight(6) + eight(7)
	require.Equal(t, program+hex.EncodeToString([]byte("program        0")), hex.EncodeToString([]byte(Put(s, 9, 0x0102030405060708, 1))))
	require.Equal(t, "01010300"+"00000000"+id, hex.EncodeToString([]byte(Query(0x0102030405060708, 3))))
	require.Equal(t, "03010001"+"00000000"+id, hex.EncodeToString([]byte(Silent(0x0102030405060708))))
}

// Parts that others have made up are refused, with the value and the limit.
func TestWrongParts(t *testing.T) {
	with := func(b string, at int, v byte) string { return b[:at] + string(v) + b[at+1:] }
	ask, silent, figures := Query(1, 0), Silent(1), Put(some(1), 1, 1, 0)
	for _, row := range []struct{ b, why string }{
		{"", "part of a summary of 0 bytes; 16 to 184"}, {figures + "123456789", "185 bytes; 16 to 184"},
		{ask[:1] + "\x02" + ask[2:], "version 2; version 1 is known"}, {with(ask, 0, 4), "kind 4; 1 to 3"}, {with(ask, 2, 8), "part 8 of a summary; 0 to 7"},
		{with(ask, 3, 1), "question with 1 parts"}, {with(ask, 4, 1), "generation 1"}, {ask + "x", "and 1 bytes more"},
		{with(silent, 3, 2), "part 0 of 2"}, {silent + "x", "1 bytes more"}, {with(figures, 2, 2), "part 2 of 2"}, {with(figures, 3, 9), "part 0 of 9 of a summary; at most 8"},
	} {
		_, _, err := Parse(row.b)
		require.ErrorContains(t, err, row.why)
	}
	for _, row := range []struct{ b, why string }{
		{ask, "a question is no answer"}, {figures[:175], "figures of 159 bytes; 160 are needed"}, {with(figures, hostAt, 64), "machine of 64 bytes; at most 63"},
		{with(figures, 110, 0), "2 parts of an engine that tells no programs"},
	} {
		h, body, err := Parse(row.b)
		require.NoError(t, err)
		require.ErrorContains(t, new(Collection).Add(h, body), row.why)
	}
	for _, size := range []int{0, 55, 57, 113} {
		c := Collection{Summary: some(0), generation: 1, parts: 2, next: 1}
		require.ErrorContains(t, c.Add(Head{Part: 1, Parts: 2, Generation: 1}, strings.Repeat("x", size)), "1 to 3 times 56")
	}
	h, body, err := Parse(silent)
	require.NoError(t, err)
	require.ErrorIs(t, new(Collection).Add(h, body), ErrSilent)
}

// Names that others give themselves can be printed.
func TestTextsAreClean(t *testing.T) {
	s := some(1)
	s.Host, s.Programs[0].Name = "a\x1b[31m\xff\u202e\nb", "x\x07\xc3"
	got, _ := collect(t, s)
	require.Equal(t, "a?[31m????b"[:9]+"b", got.Host)
	require.Equal(t, "x??", got.Programs[0].Name)
}

// When the figures change between two parts, all is asked for anew; parts that come late are passed over.
func TestGenerations(t *testing.T) {
	var c Collection
	add := func(s *state.Summary, generation uint32, part uint8) {
		t.Helper()
		h, body, err := Parse(Put(s, generation, 1, part))
		require.NoError(t, err)
		require.NoError(t, c.Add(h, body))
	}
	add(some(4), 1, 0)
	add(some(4), 1, 0) // a copy
	add(some(4), 1, 1)
	require.Len(t, c.Summary.Programs, 3)
	add(some(7), 2, 2)
	part, missing := c.Next()
	require.Zero(t, part)
	require.True(t, missing)
	for part := range uint8(4) {
		add(some(7), 2, part)
	}
	_, missing = c.Next()
	require.False(t, missing)
	require.Equal(t, some(7), c.Summary)
}

// FuzzParts checks that an answer of any bytes is refused, or within all limits.
func FuzzParts(f *testing.F) {
	f.Add(Put(some(4), 1, 1, 0), Put(some(4), 1, 1, 1))
	f.Fuzz(func(t *testing.T, first, second string) {
		var c Collection
		for _, b := range []string{first, second, first, second} {
			h, body, err := Parse(b)
			if err != nil {
				continue
			}
			_ = c.Add(h, body)
			if part, _ := c.Next(); part > MaxParts {
				t.Fatalf("part %d", part)
			}
			if s := c.Summary; s != nil && (len(s.Programs) > state.MaxPrograms || len(s.Host) > state.MaxHost || clean(s.Host) != s.Host) {
				t.Fatalf("%+v", s)
			}
		}
	})
}

// The clients of a process are one program; those that failed most come first, and their counts add up with
// those of clients that are gone.
func TestGather(t *testing.T) {
	s, err := Gather(func(give func(*state.Line) error) error {
		for _, l := range []state.Line{
			{Device: &state.Device{PID: 3, Faults: 2, Past: state.Counts{WQEs: 100, Explained: 1}}},
			{Thread: &state.Thread{}}, {Thread: &state.Thread{Stuck: "since"}},
			{Client: &state.Client{PID: 5, Program: "busy", Queues: 2, Counts: state.Counts{WQEs: 10, Bytes: 70}}},
			{Client: &state.Client{PID: 6, Name: "a name that is longer than 16", Linked: 1, Waiting: 1, Counts: state.Counts{Failed: 1}}},
			{Client: &state.Client{PID: 5, Program: "busy", Queues: 3, Counts: state.Counts{WQEs: 1}}},
		} {
			if err := give(&l); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, err)
	s.Time = 0
	require.Equal(t, &state.Summary{
		PID: 3, Faults: 2, Threads: 2, Stuck: true, Clients: 3, Running: 2, Queues: 5, Linked: 1, Waiting: 1, WQEs: 111, Bytes: 70,
		Failed: 1, Explains: 1, Disclosed: true, Programs: []state.Program{
			{Name: "a name that is l", PID: 6, Linked: 1, Waiting: 1, Failed: 1}, {Name: "busy", PID: 5, Queues: 5, WQEs: 11, Bytes: 70},
		},
	}, s)
}
