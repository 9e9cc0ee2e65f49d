//go:build linux && (amd64 || arm64)

package top

import (
	"fmt"
	"time"

	"github.com/nicless/nicless/cmd/nicless/internal/latency"
)

// A measured queue is one whose latencies were sampled.
type measured struct {
	latency.History
	p50, p99 time.Duration // of it; asked for so often that they are kept
}

func (m *measured) add(s latency.Sample) {
	m.Add(s)
	m.p50, m.p99 = m.Quantile(0.5), m.Quantile(0.99)
}

// newQueues returns the table of queue pairs. Latencies are those of measured ones.
func newQueues(rows *[]queueRow, of map[uint32]*measured) *table[queueRow] {
	none := &measured{}
	find := func(r *queueRow) *measured {
		if m := of[r.Number]; m != nil {
			return m
		}
		return none
	}
	p50 := func(r *queueRow) time.Duration { return find(r).p50 }
	p99 := func(r *queueRow) time.Duration { return find(r).p99 }
	return &table[queueRow]{
		rows:   rows,
		by:     4, // WQE/s
		number: func(r *queueRow) uint32 { return r.Number },
		words:  queueWords,
		columns: []column[queueRow]{
			{title: "QUEUE", width: 8, rank: 0, rise: true, show: func(r *queueRow) string { return hex(r.Number) },
				order: byNumber(func(r *queueRow) uint32 { return r.Number })},
			{title: "PROGRAM", width: 12, rank: 6, rise: true, text: true, show: func(r *queueRow) string { return r.program },
				order: byText(func(r *queueRow) string { return r.program })},
			{title: "TYPE", width: 7, rank: 10, rise: true, text: true, show: func(r *queueRow) string { return clean(r.Transport) },
				order: byText(func(r *queueRow) string { return r.Transport })},
			{title: "ST", width: 4, rank: 2, rise: true, text: true, show: func(r *queueRow) string { return clean(r.State) },
				order: byText(func(r *queueRow) string { return r.State })},
			{title: "WQE/s", width: 6, rank: 1, show: func(r *queueRow) string { return short(r.wqes) },
				order: byNumber(func(r *queueRow) float64 { return r.wqes })},
			{title: "B/s", width: 6, rank: 3, show: func(r *queueRow) string { return short(r.bytes) },
				order: byNumber(func(r *queueRow) float64 { return r.bytes })},
			{title: "OUT", width: 5, rank: 4, show: func(r *queueRow) string { return count(r.Announced) },
				order: byNumber(func(r *queueRow) uint32 { return r.Announced })},
			{title: "RECV", width: 5, rank: 8, show: func(r *queueRow) string { return count(r.Posted) },
				order: byNumber(func(r *queueRow) uint32 { return r.Posted })},
			{title: "P50", width: 6, rank: 7, show: func(r *queueRow) string { return latencyText(p50(r)) },
				order: byNumber(p50)},
			{title: "P99", width: 6, rank: 7, show: func(r *queueRow) string { return latencyText(p99(r)) },
				order: byNumber(p99)},
			{title: "PEER", width: 9, rank: 9, rise: true, text: true, show: peerText,
				order: byNumber(func(r *queueRow) uint32 { return r.Peer })},
			{title: "CLIENT", width: 7, rank: 11, rise: true, show: func(r *queueRow) string { return fmt.Sprint(r.Client) },
				order: byNumber(func(r *queueRow) uint32 { return r.Client })},
			{title: "NOTE", width: 12, rank: 5, text: true, show: queueNote, order: byText(queueNote)},
		},
	}
}

func latencyText(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return span(d)
}

// peerText returns the number of the peer. An arrow says that it is on another device.
func peerText(r *queueRow) string {
	if r.Linked {
		return ">" + hex(r.Peer)
	}
	return hex(r.Peer)
}

// queueNote says in words what is unusual about a queue: why it waits, and what went wrong.
func queueNote(r *queueRow) string {
	switch {
	case r.Wait != "" && r.WaitTime > 0:
		return fmt.Sprintf("waits %s, %s", span(time.Duration(r.WaitTime)), clean(r.Wait))
	case r.Wait != "":
		return "waits, " + clean(r.Wait)
	case r.code != "":
		return r.code
	case r.Failed:
		return "failed"
	}
	return ""
}

func queueWords(r *queueRow) string {
	return fmt.Sprintf("%s %s %s %s client=%d, thread=%d, peer=%s, %s", hex(r.Number), r.program, clean(r.Transport),
		clean(r.State), r.Client, r.thread, peerText(r), queueNote(r))
}
