package rack

import (
	"fmt"
	"time"
)

// The habits of a node. TestHabits of package fabric/pool compares them with the code.
const (
	Tick     = 20 * time.Millisecond  // a node for which something happens beats and looks once per tick
	IdleTick = 100 * time.Millisecond // one for which nothing has happened for 2 s does so once in this time
	LookAt   = 128                    // nodes without rings that are looked at in a tick

	OwnPeriod   = 500 * time.Millisecond // a node reads what it says of itself once in this time
	StandPeriod = 500 * time.Millisecond // and looks whether its rings stand still
	FullLook    = 16                     // one of so many looks at an empty ring reads all its slots
	Nap         = 2 * time.Millisecond   // an idle engine looks at its rings once in this time (LateNap)
)

// Limits of a rack.
const (
	MinNodes, MaxNodes = 2, 1024
	MaxSlots           = 512
)

// Sizes in lines, and in bytes.
const (
	line          = 64
	slotLines     = 2
	slotHead      = 16 // bytes of a slot before the headers
	inline        = slotLines*line - slotHead
	descriptionOf = 128 // bytes, and 24 for each address
	address       = 24
	boardHead     = 64
)

// A Rack is the nodes of a pool, all of which do the same.
type Rack struct {
	Nodes     int // MinNodes to MaxNodes
	Talks     int // with how many others each node has rings: 0 to Nodes-1
	Slots     int // of each ring: a power of two up to MaxSlots
	Data      int // bytes of the data area of each ring
	Addresses int // that a node has
	Board     int // bytes of announcements of a node
}

// New returns a rack with rings as they begin, and nodes with two addresses and no announcements.
func New(nodes, talks int) Rack {
	return Rack{Nodes: nodes, Talks: talks, Slots: 64, Data: 48 << 10, Addresses: 2}
}

// Check returns an error if there is no such rack.
func (r *Rack) Check() error {
	switch {
	case r.Nodes < MinNodes || r.Nodes > MaxNodes:
		return fmt.Errorf("rack: %d nodes; %d to %d are possible", r.Nodes, MinNodes, MaxNodes)
	case r.Talks < 0 || r.Talks >= r.Nodes:
		return fmt.Errorf("rack: each node talks with %d others; 0 to %d are possible", r.Talks, r.Nodes-1)
	case r.Slots < 2 || r.Slots > MaxSlots || r.Slots&(r.Slots-1) != 0:
		return fmt.Errorf("rack: rings of %d slots; a power of two from 2 to %d is possible", r.Slots, MaxSlots)
	case r.Data < 0 || r.Addresses < 0 || r.Board < 0:
		return fmt.Errorf("rack: %d bytes of data, %d addresses, %d bytes of announcements; none can be negative", r.Data, r.Addresses, r.Board)
	}
	return nil
}

// Lines are lines that a node reads from the pool and writes to it, in a second or for a packet.
type Lines struct {
	Read  float64 `json:"read"`
	Write float64 `json:"write"`
}

func (a Lines) plus(b Lines) Lines { return Lines{a.Read + b.Read, a.Write + b.Write} }

// All returns all lines.
func (a Lines) All() float64 { return a.Read + a.Write }

// A Part is what a node reads and writes for one purpose.
type Part struct {
	Name string `json:"name"`
	Lines
}

// Names of parts.
const (
	Heartbeat = "heartbeat" // the node's own first line, which it checks and moves
	Header    = "header"    // of the pool
	Directory = "directory" // first lines of the other nodes
	Sessions  = "sessions"  // pairs of the node and of its peers
	Standing  = "standing"  // rings that may stand still
	Own       = "own words" // the node's own description and announcements
	Looks     = "looks"     // of the engine at its rings
)

// Sum adds the lines of parts.
func Sum(parts []Part) (s Lines) {
	for _, p := range parts {
		s = s.plus(p.Lines)
	}
	return s
}

// A State is what a node is doing.
type State struct {
	Brisk  bool    // nodes come and go, or open rings: the node beats and looks once per tick
	Moving bool    // packets move in all rings
	Looks  float64 // of the engine at each ring in a second, that find nothing or the last packet
}

// Second returns what a node does in a second. None of the nodes that it has rings with comes, goes or
// changes.
func (r *Rack) Second(s State) []Part {
	ticks, laps := perSecond(IdleTick), perSecond(IdleTick)
	if s.Brisk {
		ticks = perSecond(Tick)
		laps = ticks / float64(r.lap())
	}
	talks := float64(r.Talks)
	others := float64(r.Nodes - 1 - r.Talks)
	description := lines(descriptionOf + address*r.Addresses)
	return []Part{
		{Heartbeat, Lines{ticks, ticks}},
		{Header, Lines{ticks, 0}},
		{Directory, Lines{ticks*talks + laps*others, 0}},
		{Sessions, Lines{2 * ticks * talks, 0}},
		{Standing, Lines{perSecond(StandPeriod) * talks * r.standing(s.Moving), 0}},
		{Own, Lines{perSecond(OwnPeriod) * (description + lines(boardHead+r.Board)), 0}},
		{Looks, Lines{s.Looks * talks, 0}},
	}
}

// lap returns in how many ticks a brisk node looks at all others.
func (r *Rack) lap() int { return (r.Nodes + LookAt - 1) / LookAt }

// Seen returns after how long every node has looked at every other one, at most: brisk nodes, and idle ones.
func (r *Rack) Seen() (brisk, idle time.Duration) { return time.Duration(r.lap()) * Tick, IdleTick }

// standing returns how many lines a look at the two rings of a pair reads: the peer's count of the ring to
// it, and, if no packet has moved there, slots of the ring from it: the next one, and sometimes the first
// line of each.
func (r *Rack) standing(moving bool) float64 {
	if moving {
		return 1
	}
	return 2 + float64(r.Slots)/FullLook
}

func perSecond(d time.Duration) float64 { return float64(time.Second) / float64(d) }

func lines(bytes int) float64 { return float64((bytes + line - 1) / line) }
