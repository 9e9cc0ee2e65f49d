//go:build linux && (amd64 || arm64)

package recovery

import (
	"github.com/nicless/nicless/engine/internal/congestion"
	"github.com/nicless/nicless/internal/nic"
)

// A Path is what a port knows of the losses on one path. All queue pairs on the path share it.
type Path struct {
	nic.PathCounts
	RoundTrip RoundTrip
	To        uint32 // number of the path by which packets are sent to the peer
	Trip      congestion.Trip
	Agreed    bool   // the peer has said that it understands reports
	Reach     uint32 // how far before the expected packet the peer keeps packets on a long path
	Agreement Agreement
	users     int // queue pairs on the path
}

// Paths has the paths of a port, by the number of the path by which packets come from the peer. The zero
// value is empty. Not safe for concurrent use.
type Paths struct {
	Store    Store // of early packets of the queue pairs
	byNumber map[uint32]*Path
}

// mostIdle is how many paths without queue pairs are remembered, so that their counts outlive the queue
// pairs. It is twice as many as a carrier of RoCE has; an entry takes about 100 bytes.
const mostIdle = 8192

// Join returns the path with a number for a queue pair that begins to use it.
func (p *Paths) Join(number uint32) *Path {
	w := p.byNumber[number]
	if w == nil {
		if len(p.byNumber) >= mostIdle {
			p.trim()
		}
		if p.byNumber == nil {
			p.byNumber = make(map[uint32]*Path)
		}
		w = new(Path)
		p.byNumber[number] = w
	}
	w.users++
	return w
}

// Used returns the path with a number if a queue pair uses it, nil if not.
func (p *Paths) Used(number uint32) *Path {
	if w := p.byNumber[number]; w != nil && w.users > 0 {
		return w
	}
	return nil
}

// Leave is called when a queue pair ends its use of the path. After the last one, another peer may come: it
// is asked again.
func (w *Path) Leave() {
	w.users--
	if w.users == 0 {
		w.Agreed, w.Reach, w.Agreement, w.Trip = false, 0, Agreement{}, congestion.Trip{}
	}
}

// trim drops the paths that no queue pair uses.
func (p *Paths) trim() {
	for n, w := range p.byNumber {
		if w.users == 0 {
			delete(p.byNumber, n)
		}
	}
}

// Counts returns the counts of all paths that have been used, by their numbers.
func (p *Paths) Counts() map[uint32]nic.PathCounts {
	all := make(map[uint32]nic.PathCounts, len(p.byNumber))
	for n, w := range p.byNumber {
		all[n] = w.PathCounts
	}
	return all
}
