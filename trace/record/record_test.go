//go:build linux && (amd64 || arm64)

package record_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/nicless/nicless/trace/record"
	"github.com/nicless/nicless/trace/replay"
	"github.com/stretchr/testify/require"
)

// Raw records of programs of Debian on a device of nicless, one of each process; see testdata/README.md.
var programs = []string{"rc_pingpong", "srq_pingpong", "ud_pingpong", "read_lat", "atomic_bw"}

func rawFiles(t testing.TB, name string) (files [][]byte) {
	t.Helper()
	paths, err := filepath.Glob("testdata/raw/" + name + ".*.raw")
	require.NoError(t, err)
	require.Len(t, paths, 2)
	for _, p := range paths {
		b, err := os.ReadFile(p)
		require.NoError(t, err)
		files = append(files, b)
	}
	return files
}

// write makes a trace of raw files.
func write(files ...[]byte) ([]byte, *record.Summary, error) {
	var list []record.File
	for i, b := range files {
		list = append(list, record.File{Name: string(rune('a'+i)) + ".raw", In: bytes.NewReader(b), Size: int64(len(b))})
	}
	var out bytes.Buffer
	s, err := record.Write(&out, list)
	return out.Bytes(), s, err
}

func replayed(t *testing.T, b []byte) *replay.Report {
	t.Helper()
	r, err := replay.Run(bytes.NewReader(b), replay.Options{})
	require.NoError(t, err)
	return r
}

func TestRecordsReplay(t *testing.T) {
	for _, name := range programs {
		t.Run(name, func(t *testing.T) {
			b, s, err := write(rawFiles(t, name)...)
			require.NoError(t, err)
			require.Equal(t, 2, s.Processes)
			r := replayed(t, b)
			require.Empty(t, r.Differences)
			require.Empty(t, r.LeftOut)
			require.Positive(t, r.Messages)
			require.Zero(t, r.Unseen)
			require.EqualValues(t, s.WQEs, r.WQEs)
			require.EqualValues(t, s.Completions, r.CQEs)
		})
	}
}

const (
	kindCQE   = 10
	cqeInData = 32 + 8
)

// at returns the offsets of the raw records of a kind; 0: of all kinds.
func at(b []byte, kind byte) (list []int) {
	for i := 64; i < len(b); i += int(binary.LittleEndian.Uint32(b[i:])) {
		if kind == 0 || b[i+4] == kind {
			list = append(list, i)
		}
	}
	return list
}

// A completion that is not what the device makes is found.
func TestChangedCompletionIsFound(t *testing.T) {
	files := rawFiles(t, "rc_pingpong")
	i := at(files[0], kindCQE)[3]
	files[0][i+cqeInData+37] ^= 1 // of imm_inval_pkey, which these messages do not have
	b, _, err := write(files...)
	require.NoError(t, err)
	r := replayed(t, b)
	require.Len(t, r.Differences, 1)
	require.Contains(t, r.Differences[0].String(), "the completion differs")
}

// Two messages cross: each end finds the message of the other before the completion of its own. No order of
// single messages makes that, so two completions change places.
func TestCrossedMessages(t *testing.T) {
	files := rawFiles(t, "rc_pingpong")
	list := at(files[1], kindCQE)
	first, second := files[1][list[0]+32:list[1]], files[1][list[1]+32:list[2]]
	if len(first) == len(second) {
		for i := range first {
			first[i], second[i] = second[i], first[i]
		}
	} else { // one has a receive
		swapped := append(bytes.Clone(files[1][list[1]:list[2]]), files[1][list[0]:list[1]]...)
		copy(files[1][list[0]:], swapped)
	}
	b, s, err := write(files...)
	require.NoError(t, err)
	require.Equal(t, 1, s.Crossed)
	r := replayed(t, b)
	require.Empty(t, r.Differences)
	require.EqualValues(t, 24, r.CQEs)
}

// A process that is killed leaves a record that is good as far as it goes.
func TestCutShort(t *testing.T) {
	for _, name := range programs {
		files := rawFiles(t, name)
		for _, i := range at(files[0], 0)[8:] {
			for _, end := range []int{i, i + 8, i + 40} {
				if end >= len(files[0]) {
					continue
				}
				b, s, err := write(files[0][:end], files[1])
				require.NoError(t, err)
				require.Equal(t, 1, s.Cut+s.Killed, end)
				r := replayed(t, b)
				require.Empty(t, r.Differences, "%s cut at %d", name, end)
			}
		}
	}
}

func TestRefuses(t *testing.T) {
	good := rawFiles(t, "read_lat")[0]
	first := at(good, 0)[0]
	change := func(i int, v byte) []byte {
		b := bytes.Clone(good)
		b[i] = v
		return b
	}
	for want, b := range map[string][]byte{
		`a.raw: it begins with "niclraw2", and a raw record of this version with "niclraw1"`: change(7, '2'),
		`a.raw: it begins with "", and`:                                           nil,
		"a.raw: 20 bytes; the header has 64":                                      good[:20],
		"record at byte 64: size 1; multiples of 8 from 32 to 65536 are possible": change(first, 1),
		"record at byte 64: padding 9 of":                                         change(first+5, 9),
		"record at byte 64: kind 99; 1 to 14 are possible":                        change(first+4, 99),
		"record at byte 64: kind 7: there is no object 1":                         change(first+4, 7),
		"object 1: there is no device 0":                                          change(first+4, 2),
	} {
		_, _, err := write(b)
		require.ErrorContains(t, err, want)
	}
	_, _, err := write()
	require.ErrorIs(t, err, record.ErrNothing)
	_, _, err = write(good[:64])
	require.ErrorIs(t, err, record.ErrNothing)
}

// Write makes a trace of all bytes or returns an error, and the trace is whole.
func FuzzWrite(f *testing.F) {
	for _, name := range programs {
		files := rawFiles(f, name)
		f.Add(files[0], files[1])
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		out, s, err := write(a, b)
		if (s == nil) == (err == nil) {
			t.Fatal("both or neither of summary and error")
		}
		if err == nil {
			checkWhole(t, out)
		}
	})
}
