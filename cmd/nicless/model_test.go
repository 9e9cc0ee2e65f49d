package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/nicless/nicless/tools/costs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every preset prices every operation, and every form of the output ends with what each total rests on, its
// weakest trust and its range.
func TestModelEndsWithTrust(t *testing.T) {
	for i, op := range synthOps() {
		form := outputForms[i%3]
		t.Run(op+" "+form, func(t *testing.T) {
			t.Parallel()
			var out, errs strings.Builder
			args := []string{"model", "--synth", op, "--preset", strings.Join(costs.Names(), ","), "--out", form}
			require.Zero(t, run(args, strings.NewReader(""), &out, &errs), errs.String())
			require.Empty(t, errs.String())
			text := strings.Join(strings.Fields(out.String()), " ")
			if form == "svg" { // a sentence takes several elements
				text = strings.Join(strings.Fields(elements.ReplaceAllString(out.String(), " ")), " ")
			}
			at := 0
			for _, name := range costs.Names() {
				n := strings.Index(text[at:], name+" rests on ")
				if !assert.GreaterOrEqual(t, n, 0, "%s is missing or out of order", name) {
					continue
				}
				at += n
				require.Regexp(t, `^\S+ rests on [0-9]+ (measured|primary|secondary|recalled|inferred) numbers? \([a-z_0-9., ]+\)( and [0-9]+ better)?; `+
					`weakest: (measured here|primary|secondary|recalled|inferred); range [0-9.]+\.\.[0-9.]+ ns`, text[at:])
			}
			if form != "json" {
				require.NotContains(t, text[at:], "total")
				require.Less(t, len(text)-at, 250, "nothing follows")
			}
		})
	}
}

// Elements of XML.
var elements = regexp.MustCompile(`<[^>]*>`)

// Requests that change nothing are reported to the user: the device makes no such access, or only accesses
// for which the preset has a request that precedes it. Others are not mentioned.
func TestModelNamesRequestsWithoutUse(t *testing.T) {
	var out, errs strings.Builder
	list := "dbrec.poll=CO-read, payload.prefetch=NC-read, payload.load=NC-read, record.load=NC-read"
	require.Zero(t, run([]string{"model", "--preset", "cxl1-fpga", "--request", list}, strings.NewReader(""), &out, &errs), errs.String())
	require.Equal(t, "nicless: note: --request payload.prefetch=NC-read: no access of the device uses it here\n"+
		"nicless: note: --request record.load=NC-read: no access of the device uses it here\n", errs.String())
}

// The name of the output says its form, and a name that says none we know is refused before anything is
// written.
func TestModelRefusesUnknownForms(t *testing.T) {
	path := t.TempDir() + "/plot.png"
	var out, errs strings.Builder
	require.Equal(t, 2, run([]string{"model", "--preset", "cxl1-fpga", "--output", path}, strings.NewReader(""), &out, &errs))
	require.Contains(t, errs.String(), "plot.png: .png is not a form of output")
	require.NoFileExists(t, path)
	require.Zero(t, run([]string{"model", "--preset", "cxl1-fpga", "--out", "table", "--output", path}, strings.NewReader(""), &out, &errs), errs.String())
	require.FileExists(t, path)
}
