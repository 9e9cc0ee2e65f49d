//go:build linux && (amd64 || arm64)

package links

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nicless/nicless/fabric"
	"github.com/nicless/nicless/internal/unixsock"
)

// A Report is the state of one link.
type Report struct {
	Link  string
	Why   string `json:",omitempty"` // why a link that opens by itself is open
	Peers []fabric.Peer
}

// Report returns the state of all links.
func (t *Table) Report() (list []Report) {
	s := t.now.Load()
	for _, l := range s.links {
		list = append(list, Report{Link: l.Name(), Peers: l.Peers()})
	}
	if s.roce != nil {
		list = append(list, Report{Link: s.roce.Name(), Why: t.why(), Peers: s.roce.Peers()})
	}
	return list
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

// answerTime is how long Serve waits for a reader.
const answerTime = time.Second

// Serve listens at a unix socket and writes the Report, as JSON, to everybody who connects, until
// stop is called. mode is the socket's permission bits. Serve returns when it listens. When stop
// has returned, nothing is left at path.
func (t *Table) Serve(path string, mode fs.FileMode) (stop func(), err error) {
	_ = os.Remove(path) // of an engine that is gone: the caller owns the name before it
	l, err := unixsock.ListenStream(path, mode)
	if err != nil {
		return nil, fmt.Errorf("links: %w", err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				time.Sleep(answerTime) // no descriptors are left
				continue
			}
			_ = c.SetDeadline(time.Now().Add(answerTime))
			_ = json.NewEncoder(c).Encode(t.Report())
			_ = c.Close()
		}
	}()
	return func() { _ = l.Close() }, nil
}
