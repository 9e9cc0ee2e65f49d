//go:build linux && (amd64 || arm64)

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/nicless/nicless/state"
)

// A fabricEngine is an engine of the fabric, with how fast it worked in the last moments.
type fabricEngine struct {
	state.Peer
	Rate *fabricRate `json:"rate,omitempty"`
	old  *state.Summary
}

// A fabricRate is in a second.
type fabricRate struct {
	WQEs   float64 `json:"wqes"`
	Bytes  float64 `json:"bytes"`
	Failed float64 `json:"failed"`
}

// printFabric prints what all engines of a fabric do, as the engine at a socket hears it from them.
func printFabric(ctx context.Context, w io.Writer, socket string, asJSON, all bool) error {
	before, err := readFabric(ctx, socket)
	if err != nil {
		return err
	}
	select {
	case <-time.After(statusPause):
	case <-ctx.Done():
		return ctx.Err()
	}
	now, err := readFabric(ctx, socket)
	if err != nil {
		return err
	}
	list := joinSurveys(before, now)
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(list)
	}
	_, err = w.Write(writeFabric(list, all))
	return err
}

func readFabric(ctx context.Context, socket string) ([]state.Peer, error) {
	ctx, end := context.WithTimeoutCause(ctx, statusTime, fmt.Errorf("no answer in %v", statusTime))
	defer end()
	s, err := state.Read(ctx, socket, state.Request{Fabric: true})
	switch {
	case err == nil:
		return s.Peers, nil
	case errors.Is(err, fs.ErrPermission):
		return nil, hintf("its owner decides who may connect: nicless engine --mode", "links: --all: %w", err)
	case errors.As(err, new(*net.OpError)):
		return nil, hintf("name the engine's socket: nicless links --all --engine PATH", "links: no engine at %s: %w", socket, err)
	}
	return nil, fmt.Errorf("links: --all: the engine at %s: %w", socket, err)
}

// joinSurveys returns the engines of a survey, with the rates since the one before.
func joinSurveys(before, now []state.Peer) []fabricEngine {
	type key struct{ guid, link, name string }
	old := make(map[key]*state.Summary)
	for i := range before {
		p := &before[i]
		old[key{p.GUID, p.Link, p.Name}] = p.Summary
	}
	list := make([]fabricEngine, len(now))
	for i := range now {
		p := &now[i]
		e := fabricEngine{Peer: *p, old: old[key{p.GUID, p.Link, p.Name}]}
		if p.Summary != nil {
			r := p.Summary.Since(e.old)
			e.Rate = &fabricRate{r.WQEs, r.Bytes, r.Failed}
		}
		list[i] = e
	}
	return list
}

// writeFabric writes a summary of the fabric, a table of its engines, those with trouble first, what the
// trouble is, and a table of programs, in 80 columns.
func writeFabric(list []fabricEngine, all bool) []byte {
	var b bytes.Buffer
	b.WriteString(fabricWords(list))
	down := downCount(list)
	sorted := slices.Clone(list)
	slices.SortStableFunc(sorted, func(x, y fabricEngine) int {
		return cmp.Or(cmp.Compare(severity(&y, down), severity(&x, down)),
			cmp.Compare(y.speed().WQEs, x.speed().WQEs))
	})
	shown := sorted
	if !all {
		shown = sorted[:min(len(sorted), mostPeers)]
	}
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "%s\t%s\t%s\tPROGS\tQPS\tWQE/S\tB/S\tFAILED\t\n", leftCell("ENGINE", 16), leftCell("PEER", 15),
		leftCell("HOST", 8))
	for i := range shown {
		fabricRow(t, &shown[i])
	}
	_ = t.Flush()
	if n := len(sorted) - len(shown); n > 0 {
		fmt.Fprintf(&b, "  and %s: nicless links --all --all-peers\n", some(n, "more engine"))
	}
	for i := range shown {
		if words := troubleWords(&shown[i], down); words != "" {
			fmt.Fprintf(&b, "  %s: %s\n", peerName(&shown[i].Peer), words)
		}
	}
	fabricPrograms(&b, list, all)
	return trimLines(b.Bytes())
}

// fabricWords counts the engines and what they have.
func fabricWords(list []fabricEngine) string {
	var answered, down int
	var s struct{ running, queues, linked, wqes, bytes, failed float64 }
	for i := range list {
		e := &list[i]
		switch {
		case e.Summary != nil:
			answered++
			r := e.speed()
			s.running += float64(e.Summary.Running)
			s.queues += float64(e.Summary.Queues)
			s.linked += float64(e.Summary.Linked)
			s.failed += float64(e.Summary.Failed)
			s.wqes, s.bytes = s.wqes+r.WQEs, s.bytes+r.Bytes
		case !e.Up:
			down++
		}
	}
	line := fmt.Sprintf("%s: %d answered", some(len(list), "engine"), answered)
	if down > 0 {
		line += fmt.Sprintf(", %d down", down)
	}
	if n := len(list) - answered - down; n > 0 {
		line += fmt.Sprintf(", %d without an answer", n)
	}
	line += fmt.Sprintf("\n  programs: %s; queue pairs: %s, %s of them to other engines", short(s.running),
		short(s.queues), short(s.linked))
	return line + fmt.Sprintf("\n  now %s WQE/s, %sB/s; so far %s WQEs failed\n", short(s.wqes), short(s.bytes),
		short(s.failed))
}

func (e *fabricEngine) speed() fabricRate {
	if e.Rate == nil {
		return fabricRate{}
	}
	return *e.Rate
}

func fabricRow(t io.Writer, e *fabricEngine) {
	guid := e.GUID
	if guid == "" {
		guid = "-"
	}
	name := leftCell(plain(guid), 16) + "\t" + leftCell(peerName(&e.Peer), 15) + "\t"
	if e.Summary == nil {
		fmt.Fprintf(t, "%s%s\t-\t-\t-\t-\t-\t\n", name, leftCell("-", 8))
		return
	}
	s, r := e.Summary, e.speed()
	fmt.Fprintf(t, "%s%s\t%s\t%s\t%s\t%s\t%s\t\n", name, leftCell(plain(s.Host), 8), numberOf(int(s.Running)),
		numberOf(int(s.Queues)), short(r.WQEs), short(r.Bytes), count(s.Failed))
}

// peerName names an engine as its link does.
func peerName(p *state.Peer) string {
	if p.Link == "" {
		return "this engine"
	}
	return plain(p.Name)
}

// downCount returns how many engines are down for the engine that was asked. Others see these down, too.
func downCount(list []fabricEngine) (n int) {
	for i := range list {
		if e := &list[i]; e.Summary == nil && !e.Up {
			n++
		}
	}
	return n
}

// severity returns a number that is larger the worse an engine is. down is how many engines are down for all.
func severity(e *fabricEngine, down int) int {
	s := e.Summary
	switch {
	case s == nil && !e.Up:
		return 6
	case s == nil:
		return 5
	case s.Stuck:
		return 4
	case e.speed().Failed > 0:
		return 3
	case s.Faults > 0 || int(s.PeersDown) > down:
		return 2
	case s.Failed > 0 || s.Timeouts > 0:
		return 1
	}
	return 0
}

// troubleWords says what is wrong with an engine; "": nothing is known.
func troubleWords(e *fabricEngine, down int) string {
	s := e.Summary
	if s == nil {
		if e.Up {
			return plain(e.Why)
		}
		return "down: " + plain(e.Why)
	}
	var words []string
	add := func(n uint64, one, more string) {
		switch {
		case n == 1:
			words = append(words, "1 "+one)
		case n > 1:
			words = append(words, count(n)+" "+more)
		}
	}
	if s.Stuck {
		words = append(words, "a thread is stuck")
	}
	if r := e.speed().Failed; r > 0 {
		words = append(words, short(r)+" WQEs fail each second")
	}
	add(s.Failed, "WQE failed so far", "WQEs failed so far")
	add(uint64(s.Faults), "rule of faults", "rules of faults")
	if int(s.PeersDown) > down {
		add(uint64(s.PeersDown), "of its peers is down", "of its peers are down")
	}
	add(s.Timeouts, "timeout", "timeouts")
	if e.Why != "" {
		words = append(words, "not all programs: "+plain(e.Why))
	}
	return strings.Join(words, ", ")
}

// fabricPrograms writes a table of programs, the busiest first.
func fabricPrograms(b *bytes.Buffer, list []fabricEngine, all bool) {
	type row struct {
		state.Program
		on   string
		rate state.Rate
	}
	var rows []row
	untold := 0.0
	for i := range list {
		e := &list[i]
		if e.Summary == nil {
			continue
		}
		untold += max(float64(e.Summary.Running)-float64(len(e.Summary.Programs)), 0)
		for _, p := range e.Summary.Programs {
			rows = append(rows, row{p, peerName(&e.Peer), programRate(e, &p)})
		}
	}
	slices.SortStableFunc(rows, func(x, y row) int { return cmp.Compare(y.rate.WQEs, x.rate.WQEs) })
	more := 0
	if !all && len(rows) > mostRows {
		rows, more = rows[:mostRows], len(rows)-mostRows
	}
	if len(rows) > 0 {
		t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintf(t, "\n%s\t%s\tPID\tQPS\tWQE/S\tB/S\tFAILED\t\n", leftCell("PROGRAM", 16), leftCell("ON", 15))
		for i := range rows {
			p := &rows[i]
			fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t\n", leftCell(plain(p.Name), 16), leftCell(p.on, 15),
				p.PID, numberOf(int(p.Queues)), short(p.rate.WQEs), short(p.rate.Bytes), count(p.Failed))
		}
		_ = t.Flush()
	}
	if more > 0 {
		fmt.Fprintf(b, "  and %s: nicless links --all --all-peers\n", some(more, "more program"))
	}
	if untold > 0 {
		fmt.Fprintf(b, "  programs whose engine does not tell them: %s (nicless engine --disclose)\n", short(untold))
	}
}

// programRate returns how fast a program worked, if the summary before had it.
func programRate(e *fabricEngine, p *state.Program) (r state.Rate) {
	if e.old == nil {
		return r
	}
	for i := range e.old.Programs {
		if o := &e.old.Programs[i]; o.PID == p.PID && o.Name == p.Name {
			was := state.Summary{PID: e.old.PID, Time: e.old.Time, WQEs: o.WQEs, Bytes: o.Bytes}
			now := state.Summary{PID: e.Summary.PID, Time: e.Summary.Time, WQEs: p.WQEs, Bytes: p.Bytes}
			return now.Since(&was)
		}
	}
	return r
}

// trimLines takes the spaces at the ends of lines away.
func trimLines(text []byte) []byte {
	lines := strings.Split(string(text), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return []byte(strings.Join(lines, "\n"))
}
