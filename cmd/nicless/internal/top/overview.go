//go:build linux && (amd64 || arm64)

package top

import (
	"fmt"
	"strings"
	"time"

	"github.com/nicless/nicless/state"
)

// overview returns what a queue pair is and does, its latencies and rings, scrolled to p.scroll.
func (p *page) overview(height int) []string {
	q := p.m.pic.queue(p.number)
	if q == nil {
		return []string{"the engine says nothing about queue " + hex(p.number)}
	}
	width := p.m.width
	all := flow(attributes(q), width)
	if note := queueNote(q); note != "" {
		all = append(all, p.m.st.bad.Render(cut("! "+note, width)))
	}
	all = append(all, p.ringBars(q)...)
	all = append(all, p.histogram()...)
	for _, e := range p.m.pic.errorsOf(q.Number) {
		all = append(all, cut(fmt.Sprintf("! %s wqe %d %s: %s", e.Time.Format(time.TimeOnly), e.Index,
			clean(e.Code), clean(e.Text)), width))
	}
	p.scroll = max(min(p.scroll, len(all)-height), 0)
	return all[p.scroll:min(p.scroll+height, len(all))]
}

func attributes(q *queueRow) []string {
	peer := "no peer"
	switch {
	case q.Peer != 0 && q.Linked:
		peer = fmt.Sprintf("peer %s on link %d", hex(q.Peer), q.Port)
	case q.Peer != 0:
		peer = "peer " + hex(q.Peer)
	case q.Linked:
		peer = fmt.Sprintf("link %d", q.Port)
	}
	srq := ""
	if q.SRQ != 0 {
		srq = "srq " + hex(q.SRQ)
	}
	return []string{
		clean(q.Transport), "state " + clean(q.State), peer,
		fmt.Sprintf("client %d %s", q.Client, q.program),
		fmt.Sprintf("thread %d", q.thread), "send cq " + hex(q.SendCQ), "recv cq " + hex(q.RecvCQ), srq,
		short(q.wqes) + " WQE/s", short(q.bytes) + " B/s", short(q.receives) + " receives/s",
		"WQEs done " + grouped(q.WQEs), "bytes " + grouped(q.Bytes), "receives " + grouped(q.Consumed),
		fmt.Sprintf("blocks outstanding %d", q.Announced), fmt.Sprintf("receives posted %d", q.Posted),
	}
}

// ringBars draws the send and the receive queue by what the engine says of the queue pair.
func (p *page) ringBars(q *queueRow) (all []string) {
	if q.SendSize > 0 {
		r := &state.Ring{Of: state.SendRing, Size: q.SendSize, Consumer: q.Done,
			Producer: q.Done + uint64(q.Announced)}
		all = append(all, p.m.bar("send", r, inError(&q.Queue, r.Of))...)
	}
	if q.RecvSize > 0 {
		r := &state.Ring{Of: state.ReceiveRing, Size: q.RecvSize, Consumer: q.Consumed,
			Producer: q.Consumed + uint64(q.Posted)}
		all = append(all, p.m.bar("recv", r, inError(&q.Queue, r.Of))...)
	}
	return all
}

// bar draws a ring in one line, with its name and in figures.
func (m *Model) bar(name string, r *state.Ring, bad func(uint64) bool) []string {
	width := max(m.width-len(name)-3, 8)
	cells, _ := drawRing(r, 0, width, bad, m.st)
	return []string{name + " [" + cells + "]",
		cut(fmt.Sprintf("%*s %d of %d wait, %d free", len(name), "", r.Producer-r.Consumer, r.Size,
			uint64(r.Size)-min(r.Producer-r.Consumer, uint64(r.Size))), m.width)}
}

// histogram draws the latencies of the queue.
func (p *page) histogram() []string {
	h := p.m.latencies[p.number]
	if h == nil || h.Count() == 0 {
		return []string{cut("post to completion: no signaled WQE completed during a sample", p.m.width)}
	}
	all := flow([]string{"post to completion", fmt.Sprintf("of %d WQEs", h.Count()), "p50 " + span(h.p50),
		"p90 " + span(h.Quantile(0.9)), "p99 " + span(h.p99), "max " + span(h.Quantile(1))}, p.m.width)
	buckets := h.Buckets()
	most := int64(1)
	for _, b := range buckets {
		most = max(most, b.Count)
	}
	width := max(p.m.width-24, 4)
	for _, b := range buckets {
		n := int(b.Count * int64(width) / most)
		if b.Count > 0 {
			n = max(n, 1)
		}
		all = append(all, fmt.Sprintf("%6s to %6s %s %d", round(b.From), round(b.To),
			p.m.st.busy.Render(strings.Repeat(p.m.st.full, n)), b.Count))
	}
	return all
}

// round returns a bound of a bucket: 1, 2 or 5 and zeros.
func round(d time.Duration) string {
	s := span(d)
	for _, unit := range []string{"us", "ms", "s"} {
		if n, ok := strings.CutSuffix(s, unit); ok && strings.Contains(n, ".") {
			return strings.TrimRight(strings.TrimRight(n, "0"), ".") + unit
		}
	}
	return s
}
