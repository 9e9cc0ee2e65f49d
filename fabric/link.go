package fabric

import (
	"time"

	"github.com/nicless/nicless/internal/nic"
)

// A Link leads to other engines. Its methods are safe for concurrent use and do not wait for
// peers.
type Link interface {
	// Name returns what the link is called in --link, in the log and in explanations.
	Name() string

	// Route returns the path to an address, and whether the link leads there. The path may be
	// down at the moment. If it has no port, the link opens it now: ask again. Route does not wait, because
	// the engine's thread may call it.
	Route(to nic.Address) (path nic.Path, ok bool)

	// Peers returns what is known of the other engines.
	Peers() []Peer

	// Close ends the link and closes its ports.
	Close() error
}

// A Peer is another engine, as a link sees it.
type Peer struct {
	Name  string    // name of the peer: a node of a pool, or an address
	GUID  uint64    // GUID of the engine; 0 if it is not known yet
	Up    bool      // packets can be exchanged
	Why   string    // if not Up: why, as a sentence without a full stop
	Since time.Time // when Up or Why changed last

	// Faults is how often the link was given up, and made anew later, because the peer had written garbage.
	// WrongSums is how often a packet was looked at whose check sum was wrong, on links with check sums: few
	// looks are a memory that is late, many that memory was lost or damaged. None of them was taken for data.
	// Keys says, on links with keys, which key the peer has, or that it has none.
	Faults    uint64 `json:",omitempty"`
	WrongSums uint64 `json:",omitempty"`
	Keys      string `json:",omitempty"`

	MTU   int           // most bytes of payload in a packet; 0 if there is no port yet
	Stats nic.PortStats // counts of the port; zero if there is no port
}

// A Port is an InfiniBand port of another engine, as that engine states it.
type Port struct {
	Engine uint64 // GUID of the engine
	Name   string // of the engine, as in Peer
	Up     bool   // packets can be exchanged
	GID    [16]byte
	LID    uint16 // not 0
}
