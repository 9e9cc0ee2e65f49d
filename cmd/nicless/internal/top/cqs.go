//go:build linux && (amd64 || arm64)

package top

import (
	"fmt"
	"strings"
)

// newCQs returns the table of completion queues.
func newCQs(rows *[]cqRow) *table[cqRow] {
	return &table[cqRow]{
		rows:   rows,
		by:     2, // CQE/s
		number: func(r *cqRow) uint32 { return r.Number },
		words: func(r *cqRow) string {
			return fmt.Sprintf("%s %s client=%d, %s", hex(r.Number), r.program, r.Client, cqNote(r))
		},
		columns: []column[cqRow]{
			{title: "CQ", width: 8, rank: 0, rise: true, show: func(r *cqRow) string { return hex(r.Number) },
				order: byNumber(func(r *cqRow) uint32 { return r.Number })},
			{title: "PROGRAM", width: 12, rank: 4, rise: true, text: true, show: func(r *cqRow) string { return r.program },
				order: byText(func(r *cqRow) string { return r.program })},
			{title: "CQE/s", width: 6, rank: 1, show: func(r *cqRow) string { return short(r.rate) },
				order: byNumber(func(r *cqRow) float64 { return r.rate })},
			{title: "UNPOLLED", width: 9, rank: 2, show: func(r *cqRow) string { return count(r.Unpolled) },
				order: byNumber(func(r *cqRow) uint32 { return r.Unpolled })},
			{title: "SIZE", width: 7, rank: 5, show: func(r *cqRow) string { return count(r.Size) },
				order: byNumber(func(r *cqRow) uint32 { return r.Size })},
			{title: "FULL", width: 6, rank: 6, show: func(r *cqRow) string { return percent(full(r)) },
				order: byNumber(full)},
			{title: "WRITTEN", width: 8, rank: 7, show: func(r *cqRow) string { return short(float64(r.Written)) },
				order: byNumber(func(r *cqRow) uint64 { return r.Written })},
			{title: "QPS", width: 6, rank: 8, show: func(r *cqRow) string { return count(r.Queues) },
				order: byNumber(func(r *cqRow) int { return r.Queues })},
			{title: "CLIENT", width: 7, rank: 9, rise: true, show: func(r *cqRow) string { return fmt.Sprint(r.Client) },
				order: byNumber(func(r *cqRow) uint32 { return r.Client })},
			{title: "NOTE", width: 7, rank: 3, text: true, show: cqNote, order: byText(cqNote)},
		},
	}
}

// full returns the share of a CQ's entries that the program has not taken.
func full(r *cqRow) float64 { return float64(r.Unpolled) / float64(max(r.Size, 1)) }

func cqNote(r *cqRow) string {
	var notes []string
	for _, n := range []struct {
		is   bool
		text string
	}{{r.Overrun, "overrun"}, {r.Armed, "armed"}, {r.Collapsed, "collapsed"}} {
		if n.is {
			notes = append(notes, n.text)
		}
	}
	return strings.Join(notes, ", ")
}
