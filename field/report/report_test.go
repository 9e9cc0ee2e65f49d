package report_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/field/known"
	"github.com/nicless/nicless/field/report"
	"github.com/nicless/nicless/wqe"
)

var guess = report.Options{Address: wqe.AddressGuess}

func decoded(t *testing.T, text string, o report.Options) (string, report.Summary) {
	t.Helper()
	var out strings.Builder
	s, err := report.Decode(&out, strings.NewReader(text), o)
	require.NoError(t, err)
	return out.String(), s
}

// requireWidth checks that text fits a terminal and cannot change it.
func requireWidth(t *testing.T, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		assert.LessOrEqual(t, utf8.RuneCountInString(line), 80, line)
		for _, r := range line {
			require.True(t, unicode.IsPrint(r), "%q", line)
		}
	}
}

// The page of each name fits, and names what it is about.
func TestPages(t *testing.T) {
	names := known.Names()
	for n := range 256 {
		names = append(names, fmt.Sprintf("syndrome 0x%02x vendor 0x88", n))
	}
	for _, name := range names {
		a, err := known.Find(name)
		if name == "syndrome 0x00 vendor 0x88" {
			continue // no failure
		}
		require.NoError(t, err, name)
		var out strings.Builder
		require.NoError(t, report.Page(&out, a))
		requireWidth(t, out.String())
		if a.Explanation != nil {
			assert.Contains(t, out.String(), name+" (")
			assert.Contains(t, out.String(), "  fix:       ")
		}
		if a.Syndrome != nil {
			assert.Contains(t, out.String(), fmt.Sprintf("syndrome 0x%02x: ", uint8(a.Syndrome.Value)))
		}
	}
	var out strings.Builder
	require.NoError(t, report.List(&out))
	requireWidth(t, out.String())
	for _, name := range known.Names() {
		assert.Contains(t, out.String(), name)
	}
}

// Each syndrome in a CQE leads to all its causes in order, and its repetitions to counts.
func TestEverySyndrome(t *testing.T) {
	for _, s := range known.Syndromes() {
		log := "mlx5: a: got completion with error:\n" + words(s.Value)
		text, summary := decoded(t, strings.Repeat(log, 20), guess)
		require.Equal(t, 20, summary.Items)
		require.Equal(t, 20, summary.Failures)
		at := 0
		write, vendor := wqe.OpRDMAWrite, uint8(0x11)
		list := known.Causes(known.Failure{Syndrome: s.Value, Vendor: &vendor, Requester: true, Opcode: &write})
		require.NotEmpty(t, list)
		for i, c := range list {
			flat := strings.Join(strings.Fields(text), " ")
			now := strings.Index(flat, fmt.Sprintf("%d. %s", i+1, c.Text))
			require.Greater(t, now, at, "%v: %s", s.Value, c.Text)
			at = now
		}
		require.Equal(t, 1, strings.Count(text, "probable causes"))
		require.Equal(t, 7, strings.Count(text, ": again syndrome"))
		require.Contains(t, text, "and 12 more: ")
	}
}

func words(s cqe.Syndrome) string {
	const zeros = "00000000 00000000 00000000 00000000\n"
	return zeros + zeros + zeros + fmt.Sprintf("00000000 000011%02x 08001234 000700d2\n", uint8(s))
}

func TestJSON(t *testing.T) {
	text, summary := decoded(t, "x\nmlx5: a: got completion with error:\n"+words(cqe.RemoteAccess)+
		"Failed status local length error (1) for wr_id 1\n00000510 00010203 00000008 00000000 "+
		"00007f00 00001000 00000100 00000000 80000004 00000200 00007f00 00002000\n", report.Options{JSON: true, Address: wqe.AddressGuess})
	require.Equal(t, 3, summary.Items)
	lines := strings.Split(strings.TrimSpace(text), "\n")
	require.Len(t, lines, 3)
	for i, want := range []map[string]any{
		{"line": 3.0, "last": 6.0, "kind": "cqe", "program": "libmlx5", "syndrome": 19.0, "status": "IBV_WC_REM_ACCESS_ERR",
			"vendor_err_synd": 17.0, "qpn": float64(0x1234), "wqe_counter": 7.0},
		{"kind": "text", "syndrome": 1.0, "status": "IBV_WC_LOC_LEN_ERR"},
		{"kind": "send", "hex": "00000510000102030000000800000000" + "00007f00000010000000010000000000" + "800000040000020000007f0000002000"},
	} {
		var got map[string]any
		require.NoError(t, json.Unmarshal([]byte(lines[i]), &got))
		for name, value := range want {
			assert.Equal(t, value, got[name], name)
		}
	}
	require.Contains(t, lines[2], `"suspicions":[{"code":"inline-read"`)
}

// A flush names the failure of its queue, of which it is a consequence.
func TestRoots(t *testing.T) {
	const log = `cqe: syndrome=0x13 vendor=0x88 hw=0x0 (type=0x0) wqe_opcode_qpn=0x8000001 wqe_counter=0x7
cqe: syndrome=0x12 vendor=0x8a hw=0x0 (type=0x0) wqe_opcode_qpn=0x8000002 wqe_counter=0x7
cqe: syndrome=0x5 vendor=0xf9 hw=0x0 (type=0x0) wqe_opcode_qpn=0x8000002 wqe_counter=0x8


mlx5_poll_one:530:(pid 0): syndrome 0x5, vendor syndrome 0xf9


cqe: syndrome=0x5 vendor=0xf9 hw=0x0 (type=0x0) wqe_opcode_qpn=0x8000003 wqe_counter=0x8
`
	text, _ := decoded(t, log, report.Options{All: true})
	require.Contains(t, text, "note: queue 0x000002 failed first at line 2: syndrome 0x12, remote invalid\n      request error\n")
	require.Contains(t, text, "note: the first failure before this one is at line 1: syndrome 0x13")
	require.Equal(t, 2, strings.Count(text, "note: "))
	lines, _ := decoded(t, log, report.Options{JSON: true})
	require.Equal(t, 1, strings.Count(lines, `"root_line":2`))
	require.Equal(t, 1, strings.Count(lines, `"root_line":1`))
}

// Hostile text: nothing of it reaches the output.
func TestHostileText(t *testing.T) {
	for _, bad := range []string{"\x1b[2J", "\x1b]0;x\x07", "\u202e", "\x00", "\xff\xfe", "\u009b31m"} {
		text, _ := decoded(t, bad+"mlx5: "+bad+": got completion with error:"+bad+"\n"+words(cqe.RemoteAccess)+
			bad+"NET/IB : Got completion from peer "+bad+" with status=12 opcode=0 len=0 vendor err 129 "+bad+"\n", guess)
		require.Contains(t, text, "syndrome 0x13")
		require.Contains(t, text, "syndrome 0x15")
		for _, r := range text {
			require.True(t, r == '\n' || unicode.IsPrint(r), "%q of %q", r, bad)
		}
	}
}

// Errors of the reader and of the writer are returned.
func TestErrors(t *testing.T) {
	broken := errors.New("broken")
	_, err := report.Decode(&bytes.Buffer{}, failing{broken}, guess)
	require.ErrorIs(t, err, broken)
	require.ErrorContains(t, err, "line 1: ")
	_, err = report.Decode(failing{broken}, strings.NewReader("WC error: 4, Message: local protection error\n"), guess)
	require.ErrorIs(t, err, broken)
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error)  { return 0, f.err }
func (f failing) Write([]byte) (int, error) { return 0, f.err }

// Different kinds of failures take bounded memory: those beyond the limit are counted together.
func TestManyKinds(t *testing.T) {
	var log strings.Builder
	for n := range 6000 {
		fmt.Fprintf(&log, "mlx5_poll_one:530: syndrome 0x%x, vendor syndrome 0x%x\n\n\n\n\n\n\n\n\n\n", n>>8+1, n&0xff)
	}
	text, summary := decoded(t, log.String(), guess)
	require.Equal(t, 6000, summary.Failures)
	require.Contains(t, text, "more: others, the last at line ")
}

func BenchmarkDecode(b *testing.B) {
	log := strings.Repeat("Nov 26 10:00:00 node7 systemd[1]: Started Session 4 of user root.\n", 10_000) +
		"mlx5: a: got completion with error:\n" + words(cqe.RemoteAccess)
	b.SetBytes(int64(len(log)))
	for b.Loop() {
		var out bytes.Buffer
		if _, err := report.Decode(&out, strings.NewReader(log), guess); err != nil {
			b.Fatal(err)
		}
	}
}

// FuzzFind: whatever the words, there is an answer, the page of which fits a terminal, or an error that does.
func FuzzFind(f *testing.F) {
	for _, name := range known.Names() {
		f.Add(name)
	}
	f.Add("syndrome 0x13 vendor 0x88\x1b[2J")
	f.Add("NET/IB : Got completion from peer \u202e with status=12 opcode=0 len=0 vendor err 129")
	f.Fuzz(func(t *testing.T, words string) {
		a, err := known.Find(words)
		if err != nil {
			for _, r := range err.Error() {
				if !unicode.IsPrint(r) {
					t.Fatalf("%q: %q", words, err)
				}
			}
			return
		}
		if a.Explanation == nil && a.Syndrome == nil {
			t.Fatalf("%q: neither an answer nor an error", words)
		}
		var out strings.Builder
		if err := report.Page(&out, a); err != nil {
			t.Fatal(err)
		}
		requireWidth(t, out.String())
	})
}
