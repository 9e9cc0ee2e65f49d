//go:build linux && (amd64 || arm64)

package links

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/nicless/nicless/fabric"
	"github.com/nicless/nicless/internal/unixsock"
)

// A Report is the state of one link, or of a network interface over the links.
type Report struct {
	Link  string
	Why   string   `json:",omitempty"` // why a link that opens by itself is open
	About string   `json:",omitempty"` // of a pool, a network interface or UCX: what it is, and its counts
	Notes []string `json:",omitempty"` // what was dropped, and why, in sentences

	// Strangers is how many packets the queue pairs of this engine were given from addresses that nobody here
	// has asked for. It counts those addresses that have a path now; the oldest paths end first.
	Strangers uint64 `json:",omitempty"`

	Peers []fabric.Peer
}

// Report returns the state of all links.
func (t *Table) Report() (list []Report) {
	s := t.current.Load()
	for _, l := range s.links {
		r := Report{Link: l.Name(), Peers: l.Peers()}
		if a, ok := l.(interface{ About() string }); ok {
			r.About = a.About()
		}
		list = append(list, r)
	}
	if s.roce != nil {
		list = append(list, Report{
			Link: s.roce.Name(), Why: t.why(), Notes: s.roce.Notes(), Peers: s.roce.Peers(),
			Strangers: s.roce.Stats().StrangerPackets,
		})
	}
	if f := t.notes.Load(); f != nil && len(list) > 0 {
		last := &list[len(list)-1]
		last.Notes = append(last.Notes, (*f)()...)
	}
	return list
}

// SetNotes sets the function that adds sentences to the report: what was not done for strangers and peers.
// They are with the last link, which is RoCE if it is open.
func (t *Table) SetNotes(f func() []string) {
	if f == nil {
		t.notes.Store(nil)
		return
	}
	t.notes.Store(&f)
}

// mostReasons is how many reasons the report has at most.
const mostReasons = 10

// why returns why the local addresses of RoCE are open.
func (t *Table) why() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []string
	for a, h := range t.held {
		for use := range h.uses {
			list = append(list, a.String()+": "+use)
		}
		if len(h.uses) == 0 {
			list = append(list, fmt.Sprintf("%v: it was in use less than %v ago", a, linger))
		}
	}
	slices.Sort(list)
	if more := len(list) - mostReasons; more > 0 {
		list = append(list[:mostReasons], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(list, "; ")
}

// Serve writes the Report, as JSON, to each connection to a
// unix socket, until stop is called; see unixsock.Report.
func (t *Table) Serve(path string, mode fs.FileMode) (stop func(), err error) {
	if stop, err = unixsock.Report(path, mode, func() any { return t.Report() }); err != nil {
		return nil, fmt.Errorf("links: %w", err)
	}
	return stop, nil
}
