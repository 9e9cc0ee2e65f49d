package control

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// page has the contents of docs/CONTROL.md: the rows of the table and the text under each
// heading, and the examples.
type page struct {
	rows     map[string][][]string
	text     map[string]string
	examples map[string]string
}

func readPage(t *testing.T) page {
	t.Helper()
	b, err := os.ReadFile("../../docs/CONTROL.md")
	require.NoError(t, err)
	p := page{make(map[string][][]string), make(map[string]string), make(map[string]string)}
	var heading, example string
	for line := range strings.Lines(string(b)) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "```hex "):
			example = strings.TrimPrefix(line, "```hex ")
			require.NotContains(t, p.examples, example)
		case line == "```":
			example = ""
		case example != "":
			p.examples[example] += line + "\n"
		case strings.HasPrefix(line, "#"):
			heading = strings.TrimLeft(line, "# ")
			require.NotContains(t, p.text, heading)
			p.text[heading] = ""
		case strings.HasPrefix(line, "|"):
			cells := strings.Split(strings.Trim(line, "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			p.rows[heading] = append(p.rows[heading], cells)
		default:
			p.text[heading] += line + "\n"
		}
	}
	for heading, rows := range p.rows {
		require.Greater(t, len(rows), 2, "table of %s", heading)
		p.rows[heading] = rows[2:] // without the table's head and rule
	}
	return p
}

func number(t *testing.T, s string) uint64 {
	t.Helper()
	v, err := strconv.ParseUint(s, 0, 64)
	require.NoError(t, err)
	return v
}

// places returns the offset, size and name columns under a heading.
func (p page) places(t *testing.T, heading string) (out []place) {
	t.Helper()
	for _, row := range p.rows[heading] {
		f := place{offset: int(number(t, row[0])), name: row[2]}
		if row[1] != "rest" {
			f.size = int(number(t, row[1]))
		}
		out = append(out, f)
	}
	return out
}

func TestPageListsEveryField(t *testing.T) {
	p := readPage(t)
	size := regexp.MustCompile(`(?m)^Size: (\d+) bytes\.$`)
	for name, m := range messages() {
		require.Contains(t, p.text, name, "no section")
		l := layoutOf(m)
		assert.Equal(t, l.fields, p.places(t, name), name)
		if said := size.FindStringSubmatch(p.text[name]); said != nil {
			assert.Equal(t, strconv.Itoa(l.end), said[1], "size of %s", name)
		} else {
			assert.True(t, l.hasText() || len(l.fields) <= 1, "%s does not say its size", name)
		}
	}
}

// No walker visits the header, so the test tries each place on the page with the parser.
func TestPageListsTheHeader(t *testing.T) {
	at := make(map[string]place)
	end := 0
	for _, f := range readPage(t).places(t, "Header") {
		assert.Equal(t, end, f.offset, "%s leaves no gap", f.name)
		at[f.name], end = f, f.offset+f.size
	}
	assert.Equal(t, HeaderSize, end)
	for name, value := range map[string]func(Header) uint64{
		"op":    func(h Header) uint64 { return uint64(h.Op) },
		"flags": func(h Header) uint64 { return uint64(h.Flags) },
		"size":  func(h Header) uint64 { return uint64(h.Size) },
		"tag":   func(h Header) uint64 { return h.Tag },
	} {
		f := at[name]
		require.NotZero(t, f.size, name)
		if name == "size" {
			b := make([]byte, HeaderSize+496)
			b[f.offset], b[f.offset+1] = 0xf0, 0x01
			h, _, err := ParseHeader(b)
			require.NoError(t, err)
			assert.Equal(t, uint64(496), value(h))
			continue
		}
		b := make([]byte, HeaderSize)
		b[f.offset], b[f.offset+f.size-1] = 1, 2
		h, _, err := ParseHeader(b)
		require.NoError(t, err)
		assert.Equal(t, 1|uint64(2)<<(8*(f.size-1)), value(h), name)
	}
}

func TestPageListsEveryOperation(t *testing.T) {
	var want [][]string
	for _, o := range operations {
		want = append(want, []string{fmt.Sprint(uint16(o.op)), o.op.String(), kind(o.request), kind(o.answer)})
	}
	var got [][]string
	for _, row := range readPage(t).rows["Operations"] {
		got = append(got, row[:4])
	}
	assert.Equal(t, want, got)
}

func TestPageListsEveryValue(t *testing.T) {
	codes := make(map[string]uint64)
	for c, name := range codeNames {
		codes[name] = uint64(c)
	}
	kinds := make(map[string]uint64)
	for k := EventKind(0); k <= EventMessages; k++ {
		if name := k.String(); !strings.HasPrefix(name, "event ") {
			kinds[name] = uint64(k)
		}
	}
	p := readPage(t)
	for heading, want := range map[string]map[string]uint64{
		"Refusal codes": codes,
		"Access rights": {
			"local_write": uint64(AccessLocalWrite), "remote_write": uint64(AccessRemoteWrite),
			"remote_read": uint64(AccessRemoteRead), "remote_atomic": uint64(AccessRemoteAtomic),
			"mw_bind": uint64(AccessMWBind), "zero_based": uint64(AccessZeroBased),
			"relaxed_ordering": uint64(AccessRelaxedOrdering),
		},
		"Features":    {"wake": FeatureWake},
		"CQ flags":    {"collapsed": uint64(CQCollapsed), "ignore_overrun": uint64(CQIgnoreOverrun), "compressed": uint64(CQCompressed)},
		"Event kinds": kinds,
		"QP types":    {"RC": uint64(QPTypeRC), "UC": uint64(QPTypeUC), "UD": uint64(QPTypeUD), "XRC": uint64(QPTypeXRC), "DCI": uint64(QPTypeDCI), "DCT": uint64(QPTypeDCT)},
		"QP states": {
			"RST": uint64(StateRST), "INIT": uint64(StateINIT), "RTR": uint64(StateRTR), "RTS": uint64(StateRTS),
			"SQE": uint64(StateSQE), "SQD": uint64(StateSQD), "ERR": uint64(StateERR),
		},
		"Attribute mask": {
			"state": uint64(AttrState), "cur_state": uint64(AttrCurState), "access": uint64(AttrAccess),
			"pkey_index": uint64(AttrPKeyIndex), "port": uint64(AttrPort), "qkey": uint64(AttrQKey), "guid": uint64(AttrAV),
			"path_mtu": uint64(AttrPathMTU), "timeout": uint64(AttrTimeout), "retry_count": uint64(AttrRetryCount),
			"rnr_retry": uint64(AttrRNRRetry), "rq_psn": uint64(AttrRQPSN), "max_rd_atomic": uint64(AttrMaxRdAtomic),
			"min_rnr_timer": uint64(AttrMinRNRTimer), "sq_psn": uint64(AttrSQPSN),
			"max_dest_rd_atomic": uint64(AttrMaxDestRdAtom), "dest_qpn": uint64(AttrDestQPN),
		},
	} {
		got := make(map[string]uint64)
		for _, row := range p.rows[heading] {
			got[row[1]] = number(t, row[0])
		}
		assert.Equal(t, want, got, heading)
	}

	fields := make(map[string]bool)
	for _, f := range layoutOf(&QPAttr{}).fields {
		fields[f.name] = true
	}
	for _, row := range p.rows["Attribute mask"] {
		assert.True(t, fields[row[1]], "QPAttr has no %s", row[1])
	}
	var rights uint64
	for _, row := range p.rows["Access rights"] {
		rights |= number(t, row[0])
	}
	assert.Equal(t, uint64(AccessAll|AccessRelaxedOrdering), rights)
}

func TestPageListsTheStatusPage(t *testing.T) {
	want := []place{{StatusState, 8, "state"}, {StatusHz, 8, "hz"}, {StatusAsleep, 8, "asleep"}, {StatusClock, 8, "clock"}}
	for c := range Counters {
		want = append(want, place{int(c.Offset()), 8, c.String()})
	}
	want = append(want, place{StatusReasonLast, 8, "reason_last"}, place{StatusReasons, 8, "reasons"},
		place{StatusReasonSize, 8, "reason_size"}, place{StatusReasonOffset, 8, "reason_offset"})
	p := readPage(t)
	assert.Equal(t, want, p.places(t, "Status page"))
	for _, f := range want {
		assert.Zero(t, f.offset%8, "%s must be one load", f.name)
	}
	assert.LessOrEqual(t, int(Counters.Offset()), StatusSize)
	for s := EngineRunning; s <= EngineGone; s++ {
		assert.Contains(t, p.rows["Status page"][0][3], fmt.Sprintf("%d %v", uint64(s), s))
	}
	assert.Equal(t, "state 4", (EngineGone + 1).String())
	assert.Equal(t, "counter 9", Counters.String())
}

func TestPageSaysVersionAndSizes(t *testing.T) {
	p := readPage(t)
	assert.Contains(t, p.text["The control protocol"], fmt.Sprintf("Protocol version %d.%d.", Major, Minor))
	assert.Contains(t, p.text["Transport"], fmt.Sprintf("%d bytes of header", HeaderSize))
	assert.Contains(t, p.text["Transport"], fmt.Sprintf("%d bytes at most", MaxMessage))
	assert.Contains(t, p.rows["Hello"][0][3], fmt.Sprintf("%#x", Magic))
}
