//go:build linux && (amd64 || arm64)

package top

import "fmt"

// newClients returns the table of clients.
func newClients(rows *[]clientRow) *table[clientRow] {
	return &table[clientRow]{
		rows:   rows,
		by:     3, // WQE/s
		number: func(r *clientRow) uint32 { return r.Number },
		words: func(r *clientRow) string {
			return fmt.Sprintf("%s pid=%d, uid=%d, client=%d, thread=%d, %s %s", r.name, r.PID, r.UID, r.Number,
				r.Thread, clean(r.Name), clientNote(r))
		},
		columns: []column[clientRow]{
			{title: "PID", width: 7, rank: 1, rise: true, show: func(r *clientRow) string { return number(r.PID) },
				order: byNumber(func(r *clientRow) int { return r.PID })},
			{title: "PROGRAM", width: 12, rank: 0, rise: true, text: true, show: func(r *clientRow) string { return r.name },
				order: byText(func(r *clientRow) string { return r.name })},
			{title: "CLIENT", width: 7, rank: 10, rise: true, show: func(r *clientRow) string { return fmt.Sprint(r.Number) },
				order: byNumber(func(r *clientRow) uint32 { return r.Number })},
			{title: "WQE/s", width: 6, rank: 2, show: func(r *clientRow) string { return short(r.wqes) },
				order: byNumber(func(r *clientRow) float64 { return r.wqes })},
			{title: "B/s", width: 6, rank: 3, show: func(r *clientRow) string { return short(r.bytes) },
				order: byNumber(func(r *clientRow) float64 { return r.bytes })},
			{title: "CQE/s", width: 6, rank: 9, show: func(r *clientRow) string { return short(r.cqes) },
				order: byNumber(func(r *clientRow) float64 { return r.cqes })},
			{title: "QPS", width: 6, rank: 4, show: func(r *clientRow) string { return count(r.Queues) },
				order: byNumber(func(r *clientRow) int { return r.Queues })},
			{title: "WAIT", width: 5, rank: 6, show: func(r *clientRow) string { return count(r.Waiting) },
				order: byNumber(func(r *clientRow) int { return r.Waiting })},
			{title: "FAILED", width: 7, rank: 7, show: func(r *clientRow) string { return count(r.Counts.Failed) },
				order: byNumber(func(r *clientRow) uint64 { return r.Counts.Failed })},
			{title: "MRS", width: 6, rank: 9, show: func(r *clientRow) string { return count(r.MRs) },
				order: byNumber(func(r *clientRow) int { return r.MRs })},
			{title: "MEMORY", width: 7, rank: 8, show: func(r *clientRow) string { return short(float64(r.Memory)) },
				order: byNumber(func(r *clientRow) uint64 { return r.Memory })},
			{title: "UID", width: 6, rank: 11, rise: true, show: func(r *clientRow) string { return fmt.Sprint(r.UID) },
				order: byNumber(func(r *clientRow) uint32 { return r.UID })},
			{title: "LAST ERROR", width: 11, rank: 5, text: true, show: clientNote, order: byText(clientNote)},
		},
	}
}

func number(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

// clientNote returns the last explanation that a client was given.
func clientNote(r *clientRow) string {
	if len(r.Errors) == 0 {
		return ""
	}
	return clean(r.Errors[0].Code) + ": " + clean(r.Errors[0].Text)
}
