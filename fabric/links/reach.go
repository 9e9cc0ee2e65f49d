//go:build linux && (amd64 || arm64)

package links

import (
	"fmt"
	"time"

	"github.com/nicless/nicless/fabric"
	"github.com/nicless/nicless/internal/nic"
)

// Times of reach.
const (
	// resolveTime is how long it waits for an address that no link knows yet. An engine sends the others of a
	// pool, or over UCX, the addresses of its programs when these begin, and the news may come after what the
	// programs send each other by TCP. Linux waits as long for a neighbour that it does not know.
	resolveTime = time.Second

	// openTime is how long it waits for a link that is being opened: two looks of each node of a pool of
	// 1,024, on a host so busy that each comes late.
	openTime = 2 * time.Second

	resolvePause = 5 * time.Millisecond
)

// A byNeed link opens by need.
type byNeed interface {
	// Why returns why there is no path to an address, or why it is down; "" if nothing is known of that.
	Why(to nic.Address) string

	// Look is Route for a question that is no reason to open the link.
	Look(to nic.Address) (nic.Path, bool)

	// Opening reports whether the link to an address is being opened, and was not up yet.
	Opening(to nic.Address) bool
}

// reach returns the path to an address over a pool or UCX, nil if no link leads there. It waits for a link
// that is being opened. If wait is true, it also waits for an address that no link knows yet. The error
// says why a link was not opened.
func (t *Table) reach(to nic.Address, wait bool) (*nic.Path, error) {
	began := time.Now()
	for opening := false; ; time.Sleep(resolvePause) {
		s := t.current.Load()
		path, link := s.lead(to)
		waited := time.Since(began)
		if r, ok := link.(byNeed); ok && r.Opening(to) {
			opening = true // for somebody else
		}
		switch {
		case link == nil && !opening && (!wait || len(s.links) == 0 || waited > t.resolveTime):
			return nil, nil
		case link != nil && path.Port != nil && (!opening || path.Port.Stats().Up):
			return &path, nil
		case opening && waited > openTime:
			return nil, fmt.Errorf("%w: %s", nic.ErrOpening, t.reasonOf(to))
		}
		opening = opening || link != nil
	}
}

// reasonOf returns why a link that was to be opened is not up.
func (t *Table) reasonOf(to nic.Address) string {
	for _, l := range t.current.Load().links {
		if r, ok := l.(byNeed); ok {
			if why := r.Why(to); why != "" {
				return why
			}
		}
	}
	return "it takes too long"
}

// look is lead for a question that is no reason to open a link.
func (s *snapshot) look(to nic.Address) (nic.Path, bool) {
	for _, l := range s.links {
		look := l.Route
		if n, ok := l.(byNeed); ok {
			look = n.Look
		}
		if path, ok := look(to); ok {
			return path, true
		}
	}
	return nic.Path{}, false
}

// lead returns the path to an address over a pool or UCX, and the link, nil if none leads there. The path
// has no port if the link is being opened.
func (s *snapshot) lead(to nic.Address) (nic.Path, fabric.Link) {
	for _, l := range s.links {
		if path, ok := l.Route(to); ok {
			return path, l
		}
	}
	return nic.Path{}, nil
}
