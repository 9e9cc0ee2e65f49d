//go:build linux && (amd64 || arm64)

package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/nicless/nicless/fabric"
	"github.com/nicless/nicless/fabric/links"
	"github.com/nicless/nicless/internal/nic"
)

// The table of one link: a summary, and a row for each peer, those with trouble first, so that a link with a
// thousand peers fits on a screen and still shows what is wrong.

// mostPeers is how many rows a link has if --all-peers does not ask for all: with the lines around them they
// fit into a terminal of 24 lines.
const mostPeers = 16

// A linkTable says how links are printed.
type linkTable struct {
	all    bool           // all peers
	before []links.Report // what was reported first, if rates are printed
	passed time.Duration  // between both
}

func (o *linkTable) print(w io.Writer, l *links.Report) error {
	fmt.Fprintln(w, plain(l.Link))
	if l.Why != "" {
		fmt.Fprintf(w, "  open because: %s\n", plain(l.Why))
	}
	if l.About != "" {
		fmt.Fprintf(w, "  %s\n", plain(l.About))
	}
	for _, n := range l.Notes {
		fmt.Fprintf(w, "  %s\n", plain(n))
	}
	rows := o.rows(l)
	if len(rows) > 1 {
		fmt.Fprintf(w, "  %s\n", o.summary(rows))
	}
	worstFirst(rows)
	var rest []linkRow
	if !o.all && len(rows) > mostPeers {
		rows, rest = rows[:mostPeers], rows[mostPeers:]
	}
	if err := o.writeRows(w, rows); err != nil {
		return err
	}
	if len(rest) > 0 {
		fmt.Fprintf(w, "  and %s: nicless links --all-peers\n", states(rest, " more peers"))
	}
	for i := range rows {
		printOddities(w, rows[i].Peer)
	}
	return nil
}

// A linkRow is a peer, or the nodes that have not joined a pool, with the rates if there are any.
type linkRow struct {
	fabric.Peer
	peers          int     // how many share the row
	sent, received float64 // packets of a second
}

// rows returns the rows of a link in the order of the report. A peer whose count has fallen between both
// reports has been made anew, and counts from zero.
func (o *linkTable) rows(l *links.Report) (rows []linkRow) {
	type key struct {
		name string
		nth  int // RoCE has a peer for each of its own addresses
	}
	before := make(map[key]nic.PortStats)
	count := make(map[string]int)
	for i := range o.before {
		if o.before[i].Link != l.Link {
			continue
		}
		for _, p := range o.before[i].Peers {
			before[key{p.Name, count[p.Name]}] = p.Stats
			count[p.Name]++
		}
	}
	rate := func(then, now uint64) float64 {
		if now < then {
			then = 0
		}
		return float64(now-then) / o.passed.Seconds()
	}
	absent := 0
	for i := range l.Peers {
		if absentNode(&l.Peers[i]) {
			absent++
		}
	}
	clear(count)
	for _, p := range foldAbsent(l.Peers) {
		r := linkRow{Peer: p, peers: 1}
		if p.Why == notJoined {
			r.peers = absent
		}
		then, known := before[key{p.Name, count[p.Name]}]
		count[p.Name]++
		if known {
			r.sent, r.received = rate(then.Sent, p.Stats.Sent), rate(then.Received, p.Stats.Received)
		}
		rows = append(rows, r)
	}
	return rows
}

// writeRows prints the table of peers.
func (o *linkTable) writeRows(w io.Writer, rows []linkRow) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	keys := slices.ContainsFunc(rows, func(r linkRow) bool { return r.Keys != "" })
	title := "  PEER\tSTATE\tMTU\tSENT\tRECEIVED\tRESENT\tTIMEOUTS"
	if o.before != nil {
		title += "\tSENT/S\tRECEIVED/S"
	}
	if keys {
		title += "\tKEYS"
	}
	fmt.Fprintln(t, title)
	for i := range rows {
		p, last := &rows[i], ""
		if o.before != nil {
			last += fmt.Sprintf("\t%.0f\t%.0f", p.sent, p.received)
		}
		if keys {
			last += "\t" + plain(p.Keys)
		}
		fmt.Fprintf(t, "  %s\t%s\t%d\t%d\t%d\t%d\t%d%s\n", plain(p.Name), plain(stateOf(p.Peer)), p.MTU,
			p.Stats.Sent, p.Stats.Received, p.Stats.Resent, p.Stats.Timeouts, last)
	}
	return t.Flush()
}

// summary says in a line how the peers of a link are. Interfaces and RoCE do not count queue pairs for each
// peer, so these are left out where there are none.
func (o *linkTable) summary(rows []linkRow) string {
	var s nic.PortStats
	faults := uint64(0)
	for i := range rows {
		p := &rows[i]
		s.QueuePairs += p.Stats.QueuePairs
		s.Sent += p.Stats.Sent
		s.Received += p.Stats.Received
		s.Resent += p.Stats.Resent
		s.Timeouts += p.Stats.Timeouts
		faults += p.Faults
	}
	line := states(rows, " peers")
	if s.QueuePairs > 0 {
		line += fmt.Sprintf("; queue pairs: %d", s.QueuePairs)
	}
	line += fmt.Sprintf("; packets: %d sent, %d received, %d sent again; timeouts: %d", s.Sent, s.Received, s.Resent, s.Timeouts)
	if faults > 0 {
		line += fmt.Sprintf("; made anew: %d", faults)
	}
	if o.before != nil {
		var sent, received float64
		for i := range rows {
			sent, received = sent+rows[i].sent, received+rows[i].received
		}
		line += fmt.Sprintf("; each second: %.0f sent, %.0f received", sent, received)
	}
	return line
}

// states counts the peers of rows, and those in each state, as in "5 peers: 3 up, 2 down".
func states(rows []linkRow, what string) string {
	all, up, down, absent := 0, 0, 0, 0
	for i := range rows {
		p := &rows[i]
		all += p.peers
		switch {
		case p.Up:
			up++
		case absentNode(&p.Peer) || p.Why == notJoined:
			absent += p.peers
		default:
			down++
		}
	}
	var parts []string
	for _, s := range []struct {
		n    int
		what string
	}{{up, "up"}, {down, "down"}, {absent, "not joined"}} {
		if s.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", s.n, s.what))
		}
	}
	if all == 1 {
		what = strings.TrimSuffix(what, "s")
	}
	return fmt.Sprintf("%d%s (%s)", all, what, strings.Join(parts, ", "))
}

// worstFirst sorts rows: peers that are down, then those with trouble, the most first, then the others. Nodes
// that have not joined come last. Rows that are equal in this stay in their order.
func worstFirst(rows []linkRow) {
	slices.SortStableFunc(rows, func(a, b linkRow) int {
		return cmp.Compare(trouble(&b.Peer), trouble(&a.Peer))
	})
}

// trouble returns a number that is larger the worse a peer is.
func trouble(p *fabric.Peer) float64 {
	switch {
	case !p.Up && (absentNode(p) || p.Why == notJoined):
		return -1
	case !p.Up:
		return math.Inf(1)
	}
	s := &p.Stats
	odd := 0.0
	for _, o := range oddities(s) {
		odd += float64(o.n)
	}
	// A link that was made anew had lost everything, and a timeout costs a queue pair milliseconds; a packet
	// sent again costs one packet.
	return float64(p.Faults)*1e6 + float64(s.Timeouts)*1e3 + float64(s.Resent) + float64(p.WrongSums) + odd
}
