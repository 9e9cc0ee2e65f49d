//go:build linux && (amd64 || arm64)

package top

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// barWidth is the most columns of the bar of a thread.
const barWidth = 20

// head returns the lines above the table: the engine, its threads and totals. There are at most as many as a
// third of the screen's height has room for.
func (m *Model) head() []string {
	lines := []string{m.engineLine()}
	lines = append(lines, m.threadLines(max(m.height/3-2, 1))...)
	totals := flow(m.totals(), m.width)
	return append(lines, totals[:min(len(totals), max(m.height/6, 1))]...)
}

// engineLine says which engine it is, and how fresh the picture is.
func (m *Model) engineLine() string {
	d := &m.pic.device
	var parts []string
	switch {
	case m.gone != "":
		return m.st.bad.Render(cut(fmt.Sprintf("ENGINE GONE (%s), asked again every %s; this was at %s", m.gone,
			everyText(m.pause), m.pic.taken.Format(time.TimeOnly)), m.width))
	case m.paused:
		parts = append(parts, "PAUSED at "+m.pic.taken.Format(time.TimeOnly))
	default:
		parts = append(parts, "every "+everyText(m.pause))
	}
	if m.pic.taken.IsZero() {
		return cut("asking the engine at "+clean(m.opt.Engine), m.width)
	}
	parts = append(parts, clean(d.Name), fmt.Sprintf("pid %d", d.PID),
		"up "+upText(m.pic.taken.Sub(d.Started)), "guid "+clean(d.GUID), clean(m.opt.Engine))
	return flow(parts, m.width)[0]
}

func everyText(d time.Duration) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", d.Seconds()), ".0") + "s"
}

func upText(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 24*time.Hour:
		return fmt.Sprintf("%d:%02d", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}

// threadLines returns a line for each thread, or as many as there is room for and one that sums the others
// up.
func (m *Model) threadLines(most int) (lines []string) {
	threads := m.pic.threads
	for i := range threads {
		if len(lines) == most-1 && len(threads) > most {
			return append(lines, cut(restLine(threads[i:], i > 0), m.width))
		}
		lines = append(lines, m.threadLine(&threads[i]))
	}
	return lines
}

func (m *Model) threadLine(t *threadRow) string {
	width := min(barWidth, max(m.width-34, 4))
	full := min(max(int(known(t.busy)*float64(width)+0.5), 0), width)
	line := fmt.Sprintf("%2d [%s%s]%7s", t.Number, m.st.busy.Render(strings.Repeat(m.st.full, full)),
		strings.Repeat(m.st.empty, width-full), percent(t.busy))
	about := []string{}
	switch {
	case t.Stuck != "":
		about = append(about, "STUCK: "+clean(t.Stuck))
	case t.Asleep:
		about = append(about, "asleep")
	default:
		about = append(about, "awake")
	}
	if t.Waited > 0 {
		about = append(about, "no core "+percent(t.waited))
	}
	about = append(about, plural(t.Queues, "queue"), fmt.Sprintf("%d warm", t.Warm),
		fmt.Sprintf("%d wait", t.Stalled))
	return cut(line+"  "+strings.Join(about, "  "), m.width)
}

// restLine sums up threads that have no line. If more is set, others have one.
func restLine(threads []threadRow, more bool) string {
	busy, asleep := 0.0, 0
	for i := range threads {
		busy += known(threads[i].busy)
		if threads[i].Asleep {
			asleep++
		}
	}
	word := ""
	if more {
		word = "more "
	}
	return fmt.Sprintf("%d %sthreads: %s busy in the mean, %d asleep", len(threads), word,
		percent(busy/float64(len(threads))), asleep)
}

// plural returns a count of things, whose name takes an s.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return count(n) + " " + noun + "s"
}

// known returns a rate, and 0 if it is unknown.
func known(rate float64) float64 {
	if math.IsNaN(rate) {
		return 0
	}
	return rate
}

// totals returns what the engine does and has.
func (m *Model) totals() []string {
	d, p := &m.pic.device, &m.pic
	parts := []string{
		short(p.total.wqes) + " WQE/s", short(p.total.bytes) + " B/s",
		short(p.total.cqes) + " CQE/s", short(p.total.failed) + " failed/s",
		plural(d.Clients, "client"), plural(d.Queues, "queue"), fmt.Sprintf("%d waiting", p.waiting),
		plural(d.CQs, "CQ"), plural(d.SRQs, "SRQ"),
		count(p.past.Failed) + " failed", count(p.past.Explained) + " explained",
	}
	if m.links.Up+m.links.Down > 0 {
		parts = append(parts, fmt.Sprintf("links %d up, %d down", m.links.Up, m.links.Down))
	}
	if d.Watches > 0 {
		parts = append(parts, fmt.Sprintf("watches %d", d.Watches))
	}
	if d.Faults > 0 {
		parts = append(parts, plural(d.Faults, "fault rule"))
	}
	if d.Sees != "" && d.Sees != "all" {
		parts = append(parts, "objects of this user only")
	}
	return parts
}
