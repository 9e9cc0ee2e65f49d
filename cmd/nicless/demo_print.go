//go:build linux && (amd64 || arm64)

package main

import (
	"fmt"
	"strings"
	"time"
)

// edges has the limits of the rows of the histogram, in ns. From 150 to 5,000 ns each limit
// is less than twice the limit before.
var edges = []int64{0, 100, 150, 200, 300, 400, 600, 800, 1_000, 1_500, 2_000, 3_000, 5_000, 10_000, 30_000,
	100_000, 1_000_000, int64(time.Hour)}

const barWidth = 12

func printTallies(w *printer, tallies []*tally) {
	w.text("Latency from post to completion, in ns, of the operations that were timed:")
	w.text("")
	w.printf("  %-6s %9s %9s %9s %9s %9s %11s\n", "", "count", "p50", "p90", "p99", "p99.9", "max")
	for _, t := range tallies {
		h := t.latency
		w.printf("  %-6v %9d %9d %9d %9d %9d %11d\n", t.op, h.TotalCount(), h.ValueAtPercentile(50),
			h.ValueAtPercentile(90), h.ValueAtPercentile(99), h.ValueAtPercentile(99.9), h.Max())
	}
	printBars(w, tallies)

	var done, batched uint64
	var took time.Duration
	for _, t := range tallies {
		done, batched, took = done+t.done(), batched+t.batched, took+t.took
	}
	if batched > 0 {
		w.text("")
		w.text("The time for single operations ran out: %s were made %d at a time.", thousands(batched), demoBatch)
	}
	w.text("")
	w.text("%s operations moved %s bytes in %.3g s.", thousands(done), thousands(done*demoSize), took.Seconds())
	w.text("Every payload arrived as it was sent.")
	w.text("Measured on this machine, without pinning threads to cores. \"nicless bench\" pins both sides and also measures the floor.")
}

// printBars prints one row for each range of latencies. A row has one bar for each kind of
// operation.
func printBars(w *printer, tallies []*tally) {
	counts := make([][]int64, len(tallies))
	first, last := len(edges), 0
	head := fmt.Sprintf("  %-15s", "")
	for i, t := range tallies {
		head += fmt.Sprintf("  %-*v", barWidth+7, t.op)
		counts[i] = make([]int64, len(edges))
		for _, bar := range t.latency.Distribution() {
			row := rowOf((bar.From + bar.To) / 2)
			if bar.Count > 0 {
				counts[i][row] += bar.Count
				first, last = min(first, row), max(last, row)
			}
		}
	}
	w.printf("\n%s\n", strings.TrimRight(head, " "))
	for row := first; row <= last; row++ {
		w.printf("  %15s", rowName(row))
		for i, t := range tallies {
			share := float64(counts[i][row]) / float64(max(t.latency.TotalCount(), 1))
			w.printf("  %s %5.1f%%", bar(share), 100*share)
		}
		w.printf("\n")
	}
}

// rowOf returns the row of the histogram to which a latency belongs.
func rowOf(ns int64) int {
	row := 0
	for row+2 < len(edges) && ns >= edges[row+1] {
		row++
	}
	return row
}

func rowName(row int) string {
	if row+2 == len(edges) {
		return "from " + duration(edges[row])
	}
	return duration(edges[row]) + " – " + duration(edges[row+1])
}

// duration returns one of the edges as text, in ms, us or ns.
func duration(ns int64) string {
	switch {
	case ns >= 1_000_000:
		return fmt.Sprintf("%d ms", ns/1_000_000)
	case ns >= 1_000:
		return fmt.Sprintf("%.3g us", float64(ns)/1e3)
	}
	return fmt.Sprintf("%d ns", ns)
}

// bar draws a share between 0 and 1, in steps of one eighth of a character. A share above 0
// is drawn as one eighth or more.
func bar(share float64) string {
	const full = '█'
	eighths := int(share*barWidth*8 + 0.5)
	if share > 0 {
		eighths = max(eighths, 1)
	}
	s := strings.Repeat(string(full), eighths/8)
	if rest := eighths % 8; rest > 0 {
		s += string(full + rune(8-rest)) // in Unicode the narrower blocks follow the full block
	}
	return s + strings.Repeat(" ", barWidth-len([]rune(s)))
}

// thousands groups the digits of n.
func thousands(n uint64) string {
	s := fmt.Sprint(n)
	for at := len(s) - 3; at > 0; at -= 3 {
		s = s[:at] + "," + s[at:]
	}
	return s
}
