package main

import (
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless"
)

// fits fails the test for each line that is wider than a terminal.
func fits(t *testing.T, text string) {
	t.Helper()
	require.NotEmpty(t, text)
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		assert.LessOrEqual(t, utf8.RuneCountInString(line), columns, line)
	}
}

func TestFold(t *testing.T) {
	word := strings.Repeat("ä", 19)
	for in, want := range map[string]string{
		"":                             "",
		strings.Repeat("a", columns):   strings.Repeat("a", columns),
		"  " + strings.Repeat("a", 90): "  " + strings.Repeat("a", 90), // has no space to break at
		"  1  " + word + " " + word + " " + word + " " + word: "  1  " + word + " " + word + " " + word + "\n     " + word,
		// 79 and 80 columns
		word + " " + word + " " + word + " " + word:   word + " " + word + " " + word + " " + word,
		word + " " + word + " " + word + " a" + word:  word + " " + word + " " + word + " a" + word,
		word + " " + word + " " + word + " ab" + word: word + " " + word + " " + word + "\nab" + word,
	} {
		assert.Equal(t, want, fold(in), in)
	}
}

func TestDemoFitsATerminal(t *testing.T) {
	var out, errs strings.Builder
	require.Zero(t, run([]string{"demo", "--count", "100"}, strings.NewReader(""), &out, &errs), errs.String())
	fits(t, out.String())
}

// The largest numbers that demo can print fit a terminal.
func TestTalliesFitATerminal(t *testing.T) {
	var tallies []*tally
	for _, op := range []nicless.Op{nicless.Write, nicless.Read, nicless.Send} {
		c := &tally{op: op, latency: hdrhistogram.New(1, 60e9, 3), batched: maxDemoCount, took: math.MaxInt64}
		for ns := int64(1); ns < 60e9; ns *= 3 {
			require.NoError(t, c.latency.RecordValues(ns, maxDemoCount/20))
		}
		tallies = append(tallies, c)
	}
	var out strings.Builder
	printTallies(&printer{w: &out}, tallies)
	fits(t, out.String())
}
