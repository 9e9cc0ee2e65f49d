//go:build linux && (amd64 || arm64)

package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/nicless/nicless/state"
)

// mostRows is how many rows a table of a status has at most: two tables and what is around them fit on two
// screens of a terminal.
const mostRows = 16

// writeStatus writes the status of an engine for people.
func writeStatus(w io.Writer, e *engineStatus, now time.Time) error {
	var b bytes.Buffer
	if e.err != nil {
		fmt.Fprintf(&b, "engine %s\n  no answer: %s\n", plain(e.Socket), plain(e.Error))
	} else {
		writeEngine(&b, e, now)
		writeClients(&b, e)
		writeQueues(&b, e)
		writeStatusLinks(&b, e)
		writeErrors(&b, e, now)
	}
	_, err := w.Write(narrow(b.Bytes()))
	return err
}

func writeEngine(b *bytes.Buffer, e *engineStatus, now time.Time) {
	d := &e.Device
	fmt.Fprintf(b, "engine %s\n", plain(e.Socket))
	fmt.Fprintf(b, "  pid %d, device %s, up %s", d.PID, plain(d.Name), age(now.Sub(d.Started)))
	if d.Watches > 0 {
		fmt.Fprintf(b, ", %s", some(d.Watches, "trace"))
	}
	if d.Faults > 0 {
		fmt.Fprintf(b, ", %s of faults", some(d.Faults, "rule"))
	}
	if d.Sees == state.SeesOwn {
		b.WriteString("; shown: programs of this user")
	}
	b.WriteByte('\n')
	for i, t := range e.Threads {
		l := state.Load{}
		if i < len(e.Change.Threads) {
			l = e.Change.Threads[i]
		}
		fmt.Fprintf(b, "  thread %d: work %s of the time, without a core %s", t.Number, percent(l.Busy),
			percent(l.Waited))
		if t.Asleep {
			b.WriteString(", asleep")
		}
		fmt.Fprintf(b, "; %s", some(t.Queues, "queue pair"))
		if t.Stalled > 0 {
			fmt.Fprintf(b, ", %d waiting", t.Stalled)
		}
		b.WriteByte('\n')
		if t.Stuck != "" {
			fmt.Fprintf(b, "  stuck %s\n", plain(t.Stuck))
		}
	}
	sum := d.Past
	for i := range e.Clients {
		sum.Add(e.Clients[i].Counts)
	}
	rate := e.Change.Total
	fmt.Fprintf(b, "  now %s WQE/s, %sB/s; so far %s WQEs, %sB, %s failed, %s\n", short(rate.WQEs), short(rate.Bytes),
		count(sum.WQEs), count(sum.Bytes), count(sum.Failed),
		some(int(sum.Explained), "explanation"))
}

func writeClients(b *bytes.Buffer, e *engineStatus) {
	if len(e.Clients) == 0 {
		b.WriteString("\nno clients\n")
		return
	}
	clients := slices.Clone(e.Clients)
	slices.SortStableFunc(clients, func(x, y state.Client) int {
		return cmp.Compare(e.Change.Clients[y.Number].WQEs, e.Change.Clients[x.Number].WQEs)
	})
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(b)
	fmt.Fprintln(t, leftCell("CLIENT", 18)+"\tPID\tQPS\tCQS\tMRS\tMEMORY\tWQE/S\tB/S\tFAILED\t")
	for _, c := range clients[:min(len(clients), mostRows)] {
		r := e.Change.Clients[c.Number]
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", leftCell(nameOf(&c), 18), c.PID,
			numberOf(c.Queues), numberOf(c.CQs), numberOf(c.MRs), count(c.Memory), short(r.WQEs),
			short(r.Bytes), count(c.Counts.Failed))
	}
	_ = t.Flush()
	more(b, len(clients), "client")
}

func writeQueues(b *bytes.Buffer, e *engineStatus) {
	if len(e.Queues) == 0 {
		return
	}
	names := make(map[uint32]string)
	for i := range e.Clients {
		names[e.Clients[i].Number] = nameOf(&e.Clients[i])
	}
	queues := slices.Clone(e.Queues)
	trouble := func(q *state.Queue) int {
		switch {
		case q.State == "ERR" || q.State == "SQE" || q.Failed:
			return 2
		case q.Wait != "":
			return 1
		}
		return 0
	}
	slices.SortStableFunc(queues, func(x, y state.Queue) int {
		return cmp.Or(cmp.Compare(trouble(&y), trouble(&x)),
			cmp.Compare(e.Change.Queues[y.Number].WQEs, e.Change.Queues[x.Number].WQEs))
	})
	fmt.Fprintln(b)
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, leftCell("QP", 8)+"\t"+leftCell("CLIENT", 12)+"\tTYPE\tSTATE\tPEER\tTODO\tPOSTED\tWQE/S\tB/S\t")
	shown := queues[:min(len(queues), mostRows)]
	for i := range shown {
		q := &shown[i]
		r := e.Change.Queues[q.Number]
		peer := "-"
		if q.Peer != 0 {
			peer = fmt.Sprintf("%#06x", q.Peer)
		}
		number, name := leftCell(fmt.Sprintf("%#06x", q.Number), 8), leftCell(names[q.Client], 12)
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", number, name,
			shortName(q.Transport), shortName(q.State), peer, count(uint64(q.Announced)),
			count(uint64(q.Posted)), short(r.WQEs), short(r.Bytes))
	}
	_ = t.Flush()
	more(b, len(queues), "queue pair")
	for i := range shown {
		if q := &shown[i]; q.Wait != "" {
			fmt.Fprintf(b, "  %#06x waits for %s: %s\n", q.Number, age(time.Duration(q.WaitTime)), plain(q.Wait))
		}
	}
}

func writeStatusLinks(b *bytes.Buffer, e *engineStatus) {
	if len(e.Links) == 0 {
		return
	}
	b.WriteString("\nLINKS\n")
	for _, l := range e.Links {
		fmt.Fprintf(b, "  %s\n", plain(l.Link))
		for _, p := range foldAbsent(l.Peers) {
			fmt.Fprintf(b, "    %s: %s, sent %s, received %s, sent again %s\n", plain(p.Name), plain(stateOf(p)),
				count(p.Stats.Sent), count(p.Stats.Received), count(p.Stats.Resent))
		}
	}
}

// mostErrors is how many errors a status shows.
const mostErrors = 8

func writeErrors(b *bytes.Buffer, e *engineStatus, now time.Time) {
	type entry struct {
		state.Error
		client string
	}
	var all []entry
	for i := range e.Clients {
		for _, x := range e.Clients[i].Errors {
			all = append(all, entry{x, nameOf(&e.Clients[i])})
		}
	}
	for _, x := range e.Device.Errors {
		all = append(all, entry{x, plain(x.Client)})
	}
	if len(all) == 0 {
		return
	}
	slices.SortStableFunc(all, func(x, y entry) int { return y.Time.Compare(x.Time) })
	b.WriteString("\nERRORS, the last ones of each client\n")
	for _, x := range all[:min(len(all), mostErrors)] {
		queue := ""
		if x.Queue != 0 {
			queue = fmt.Sprintf(", queue %#06x", x.Queue)
		}
		fmt.Fprintf(b, "  %s ago, %s%s: %s (%s)\n", age(now.Sub(x.Time)), x.client, queue, plain(x.Text),
			plain(x.Code))
	}
	if n := len(all) - mostErrors; n > 0 {
		fmt.Fprintf(b, "  and %d older\n", n)
	}
}

// nameOf names a client by its program, or by its name in the engine's log.
func nameOf(c *state.Client) string {
	if c.Program != "" {
		return plain(c.Program)
	}
	return plain(c.Name)
}

// firstWide is below all characters that terminals show in two columns: Hangul Jamo, then those of CJK.
const firstWide = 0x1100

// leftCell pads or cuts a text to a number of columns, so that it is at the left of a table whose other
// cells are at the right. A character that may be two columns wide, or none, is shown as a question mark.
func leftCell(s string, n int) string {
	r := []rune(s)
	for i := range r {
		if r[i] >= firstWide || unicode.Is(unicode.M, r[i]) {
			r[i] = '?'
		}
	}
	s = string(r)
	if len(r) > n {
		return string(r[:n-1]) + "~"
	}
	return s + strings.Repeat(" ", n-len(r))
}

// more says how many objects a table leaves out.
func more(b *bytes.Buffer, n int, of string) {
	if n > mostRows {
		fmt.Fprintf(b, "  and %s more: nicless top, or --json\n", some(n-mostRows, of))
	}
}

// some writes a number of things.
func some(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}

// percent writes a share.
func percent(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }

// short writes a number in at most 5 characters, such as 999, 1.2k and 345G.
func short(v float64) string {
	for _, unit := range []string{"", "k", "M", "G", "T", "P"} {
		switch {
		case v >= 999.5:
			v /= 1000
			continue
		case v >= 9.95 || unit == "" && v == float64(int(v)):
			return fmt.Sprintf("%.0f%s", v, unit)
		}
		return fmt.Sprintf("%.1f%s", v, unit)
	}
	return fmt.Sprintf("%.0fE", v)
}

// numberOf writes how many objects a client has, in at most 5 characters.
func numberOf(n int) string {
	if n > 99_999 {
		return short(float64(n))
	}
	return fmt.Sprint(n)
}

// shortName makes a name of a type or of a state safe to print, and as short as the longest, XRC-INI: with
// --all, whatever listens at a name such as an engine's may have answered.
func shortName(s string) string { return strings.TrimRight(leftCell(plain(s), 7), " ") }

// count is short for a count.
func count(n uint64) string { return short(float64(n)) }

// age writes a time with one unit, or two.
func age(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%d us", d/time.Microsecond)
	case d < time.Second:
		return fmt.Sprintf("%d ms", d/time.Millisecond)
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
	case d < 24*time.Hour:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%d d %d h", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
}

// narrow breaks lines that are longer than the terminal of a status; lines of tables fit. The first line
// stays whole, because people copy the path.
func narrow(text []byte) []byte {
	var b bytes.Buffer
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, " \n")
		if b.Len() > 0 {
			line = fold(line)
		}
		b.WriteString(line)
		b.WriteByte('\n')
	}
	return b.Bytes()
}
