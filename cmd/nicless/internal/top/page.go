//go:build linux && (amd64 || arm64)

package top

import (
	"fmt"

	tea "charm.land/bubbletea/v2"
	"github.com/nicless/nicless/state"
)

// A page shows one queue pair or one CQ, in several tabs.
type page struct {
	m      *Model
	number uint32
	ofCQ   bool
	tab    int
	scroll int // of the overview
	ring   ringView
	missed bool // the last answer did not have the queue
}

// A pageTab is an overview, or a ring of a queue.
type pageTab struct {
	name  string
	of    state.RingOf // "": the overview
	queue uint32       // whose ring it is
	size  uint32       // entries of it; 0: unknown yet
}

func newPage(m *Model, number uint32, ofCQ bool) *page {
	return &page{m: m, number: number, ofCQ: ofCQ, ring: ringView{follow: true}}
}

// tabs returns the tabs that the queue has.
func (p *page) tabs() []pageTab {
	if p.ofCQ {
		return []pageTab{{"CQ", state.CQRing, p.number, p.sizeOfCQ(p.number)}}
	}
	list := []pageTab{{name: "overview"}}
	q := p.m.pic.queue(p.number)
	if q == nil {
		return list
	}
	if q.SendSize > 0 {
		list = append(list, pageTab{"send", state.SendRing, p.number, q.SendSize})
	}
	if q.RecvSize > 0 {
		list = append(list, pageTab{"receive", state.ReceiveRing, p.number, q.RecvSize})
	}
	if q.SendCQ != 0 {
		list = append(list, pageTab{"send CQ", state.CQRing, q.SendCQ, p.sizeOfCQ(q.SendCQ)})
	}
	if q.RecvCQ != 0 && q.RecvCQ != q.SendCQ {
		list = append(list, pageTab{"receive CQ", state.CQRing, q.RecvCQ, p.sizeOfCQ(q.RecvCQ)})
	}
	return list
}

func (p *page) sizeOfCQ(number uint32) uint32 {
	if c := p.m.pic.cq(number); c != nil {
		return c.Size
	}
	return 0
}

// current returns the tab that is shown.
func (p *page) current() pageTab {
	tabs := p.tabs()
	return tabs[min(p.tab, len(tabs)-1)]
}

// question returns what the page needs: its queue, and entries of the ring that it shows.
func (p *page) question() question {
	q := question{objects: state.Request{Kinds: []state.Kind{state.Clients, state.Queues, state.CQs},
		Queue: p.number}}
	if p.ofCQ {
		q.objects = state.Request{Kinds: []state.Kind{state.Clients, state.CQs}}
	}
	if t := p.current(); t.of != "" {
		q.ring = p.ring.request(t)
	}
	return q
}

// take takes what belongs to the page: not the ring of a tab that was shown before.
func (p *page) take(a *answer) {
	p.missed = !p.ofCQ && !hasQueue(a.snapshot, p.number)
	t := p.current()
	if a.question.ring == nil || a.question.ring.Of != t.of || a.question.ring.Queue != t.queue {
		return
	}
	p.ring.take(a.ring, a.ringErr)
}

func hasQueue(s *state.Snapshot, number uint32) bool {
	for i := range s.Queues {
		if s.Queues[i].Number == number {
			return true
		}
	}
	return false
}

// pressPage takes a key while a page is shown.
func (m *Model) pressPage(key string) tea.Cmd {
	p := m.page
	switch key {
	case "esc", "q", "backspace":
		m.page = nil
		m.grid().renew()
		return m.query()
	case "tab", "right":
		return p.turn(1)
	case "shift+tab", "left":
		return p.turn(-1)
	}
	by, ok := steps(key, p.entriesHeight())
	if p.current().of == "" {
		if ok {
			p.scroll = max(p.scroll+by, 0) // the drawing bounds it
		}
		return nil
	}
	switch {
	case ok:
		if p.ring.move(by) {
			return m.query()
		}
	case key == "f":
		p.ring.follow = true
		return m.query()
	case key == "]":
		p.ring.scroll++
	case key == "[":
		p.ring.scroll = max(p.ring.scroll-1, 0)
	}
	return nil
}

// turn goes to another tab.
func (p *page) turn(by int) tea.Cmd {
	n := len(p.tabs())
	p.tab, p.ring = (min(p.tab, n-1)+by+n)%n, ringView{follow: true}
	return p.m.query()
}

// lines returns the page in a number of lines.
func (p *page) lines(height int) []string {
	all := []string{p.titleLine()}
	if p.current().of == "" {
		return append(all, p.overview(height-1)...)
	}
	return append(all, p.ringLines(height-1)...)
}

// titleLine names the queue and the tabs.
func (p *page) titleLine() string {
	name := "queue "
	if p.ofCQ {
		name = "cq "
	}
	line := name + hex(p.number)
	if p.missed {
		line += " (it has gone)"
	}
	tabs, full := p.tabs(), line
	for i, t := range tabs {
		label := t.name
		if t.of == state.CQRing && !p.ofCQ {
			label = fmt.Sprintf("%s %s", t.name, hex(t.queue))
		}
		if i == min(p.tab, len(tabs)-1) {
			line += fmt.Sprintf("  %s %d/%d", p.m.st.tab.Render("["+label+"]"), i+1, len(tabs))
			full += "  " + p.m.st.tab.Render("["+label+"]")
		} else {
			full += "  " + label
		}
	}
	if wide(full) <= p.m.width {
		return full
	}
	return cut(line, p.m.width)
}
