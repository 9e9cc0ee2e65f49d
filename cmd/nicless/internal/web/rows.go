//go:build linux && (amd64 || arm64)

package web

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nicless/nicless/state"
)

// mostRows is the most queues that a page shows at once.
const mostRows = 200

// A view says what one page shows.
type view struct {
	Filter string       // words that a row must have, case ignored
	Sort   string       // a name of orders; "": trouble first, then the busiest
	Down   bool         // the greatest first
	From   int          // rows that are passed over
	Rows   int          // at most mostRows
	Queue  uint32       // the selected one; 0: none
	Ring   state.RingOf // which ring of it
}

// A row is a queue as the page shows it.
type row struct {
	*state.Queue
	Program string     `json:"program"`
	PID     int        `json:"pid"`
	Rate    state.Rate `json:"rate"`
}

// orders compare two rows by a column.
var orders = map[string]func(a, b *row) int{
	"queue":    func(a, b *row) int { return cmp.Compare(a.Number, b.Number) },
	"program":  func(a, b *row) int { return cmp.Compare(a.Program, b.Program) },
	"type":     func(a, b *row) int { return cmp.Compare(a.Transport, b.Transport) },
	"state":    func(a, b *row) int { return cmp.Compare(a.State, b.State) },
	"peer":     func(a, b *row) int { return cmp.Compare(a.Peer, b.Peer) },
	"todo":     func(a, b *row) int { return cmp.Compare(a.Announced, b.Announced) },
	"receives": func(a, b *row) int { return cmp.Compare(a.Posted, b.Posted) },
	"wqes":     func(a, b *row) int { return cmp.Compare(a.Rate.WQEs, b.Rate.WQEs) },
	"bytes":    func(a, b *row) int { return cmp.Compare(a.Rate.Bytes, b.Rate.Bytes) },
	"": func(a, b *row) int {
		return cmp.Or(cmp.Compare(urgency(b), urgency(a)), cmp.Compare(b.Rate.WQEs, a.Rate.WQEs))
	},
}

// urgency is greater for queues that somebody should look at.
func urgency(r *row) int {
	switch {
	case r.Failed || r.State == "ERR" || r.State == "SQE":
		return 2
	case r.Wait != "":
		return 1
	}
	return 0
}

// rowsOf returns the queues that a view shows, and how many its filter has found.
func rowsOf(l *look, v *view) (shown []row, found int) {
	clients := make(map[uint32]*state.Client, len(l.now.Clients))
	for i := range l.now.Clients {
		clients[l.now.Clients[i].Number] = &l.now.Clients[i]
	}
	words := strings.Fields(strings.ToLower(v.Filter))
	all := make([]row, 0, len(l.now.Queues))
	for i := range l.now.Queues {
		q := &l.now.Queues[i]
		r := row{Queue: q, Rate: l.change.Queues[q.Number]}
		if c := clients[q.Client]; c != nil {
			r.Program, r.PID = c.Program, c.PID
		}
		if r.has(words) {
			all = append(all, r)
		}
	}
	order := orders[v.Sort]
	if order == nil {
		order = orders[""]
	}
	slices.SortStableFunc(all, func(a, b row) int {
		n := order(&a, &b)
		if v.Down {
			n = -n
		}
		return cmp.Or(n, cmp.Compare(a.Number, b.Number))
	})
	from := min(max(v.From, 0), len(all))
	return all[from:min(from+min(max(v.Rows, 0), mostRows), len(all))], len(all)
}

// has reports whether a row has all words, which are in lower case.
func (r *row) has(words []string) bool {
	if len(words) == 0 {
		return true
	}
	text := strings.ToLower(fmt.Sprintf("0x%06x %s %d %s %s 0x%06x %s", r.Number, r.Program, r.PID, r.Transport,
		r.State, r.Peer, r.Wait))
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}
