package main

import (
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseHex(t *testing.T) {
	for _, text := range []string{"00010aff", "00 01 0a ff", "00:01:0A:FF", "0x00010aFF", "0x00, 0x01, 0X0a, 0xff\n", "\t0001\r\n0aff"} {
		b, err := parseHex(text)
		require.NoError(t, err, text)
		assert.Equal(t, []byte{0, 1, 0x0a, 0xff}, b, text)
	}
	for text, want := range map[string]string{
		"":                      "there are no bytes",
		" 0x ":                  "there are no bytes",
		"123":                   `"123" has 3 digits`,
		"0xa 0xb":               `"0xa" has 1 digits`, // not one byte ab
		"00 0g":                 `"0g" holds 'g'`,
		"00x1":                  `holds 'x'`,
		"0x0x":                  `holds 'x'`,
		"–1":                    `holds '–'`,
		strings.Repeat("0", 99): "…",
	} {
		_, err := parseHex(text)
		assert.ErrorContains(t, err, want, text)
	}
}

func TestParseCPUs(t *testing.T) {
	for list, want := range map[string][]int{"": nil, "0": {0}, "1,3": {1, 3}, "2-4,9": {2, 3, 4, 9}} {
		got, err := parseCores("engine", "cpu", list)
		require.NoError(t, err, list)
		assert.Equal(t, want, got, list)
	}
	for _, list := range []string{"a", "1,", "-1", "3-2", "1-", "1--2", "5000"} {
		_, err := parseCores("engine", "cpu", list)
		assert.ErrorContains(t, err, "is not a list of cores", list)
	}
}

func TestBuildVersion(t *testing.T) {
	devel := func(settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: settings}
	}
	rev := debug.BuildSetting{Key: "vcs.revision", Value: "0123456789abcdef"}
	assert.Equal(t, "unknown", buildVersion(nil))
	assert.Equal(t, "devel", buildVersion(devel()))
	assert.Equal(t, "devel 0123456789ab", buildVersion(devel(rev)))
	assert.Equal(t, "devel 0123456789ab+changes", buildVersion(devel(rev, debug.BuildSetting{Key: "vcs.modified", Value: "true"})))
	assert.Equal(t, "v0.2.0", buildVersion(&debug.BuildInfo{Main: debug.Module{Version: "v0.2.0"}, Settings: []debug.BuildSetting{rev}}))
}

func TestBars(t *testing.T) {
	assert.Equal(t, strings.Repeat("█", barWidth), bar(1))
	assert.Equal(t, "██████      ", bar(0.5))
	assert.Equal(t, "▏"+strings.Repeat(" ", barWidth-1), bar(1e-9), "any share above 0 shows")
	assert.Equal(t, strings.Repeat(" ", barWidth), bar(0))
	assert.Equal(t, "▌"+strings.Repeat(" ", barWidth-1), bar(0.5/barWidth))

	assert.Equal(t, "1 us – 1.5 us", rowName(rowOf(1000)))
	assert.Equal(t, "800 ns – 1 us", rowName(rowOf(999)))
	assert.Equal(t, "from 1 ms", rowName(rowOf(1<<40)))
	assert.Equal(t, "0 ns – 100 ns", rowName(rowOf(0)))

	assert.Equal(t, "0", thousands(0))
	assert.Equal(t, "999", thousands(999))
	assert.Equal(t, "12,345,678", thousands(12345678))
}

// The error about a text that is too long names the command that reads it.
func TestLongInput(t *testing.T) {
	long := strings.Repeat("0a ", maxInput/3+1)
	for command, want := range map[string]string{
		"explain":    "hint: nicless decode reads texts of any length: nicless decode < FILE\n",
		"decode cqe": "hint: with a kind, one object is decoded; without, logs of any length: nicless decode < FILE\n",
	} {
		var out, errs strings.Builder
		require.Equal(t, 1, run(strings.Fields(command), strings.NewReader(long), &out, &errs), command)
		require.Contains(t, errs.String(), "error: standard input: more than 65536 bytes\n", command)
		require.Contains(t, errs.String(), want)
	}
}
