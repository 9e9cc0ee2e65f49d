//go:build linux && (amd64 || arm64)

package cm

import (
	"encoding/binary"
	"sync"
	"time"

	"github.com/nicless/nicless/internal/budget"
	"github.com/nicless/nicless/internal/nic"
)

var (
	le = binary.LittleEndian
	be = binary.BigEndian
)

// A Device is a device on which connections are made.
type Device struct {
	GUID     uint64
	AckDelay uint8 // as the device's attribute local_ca_ack_delay
	MTU      uint8 // of its port, as in enum ib_mtu
}

// Accounts charges users for what is kept for their programs.
type Accounts interface {
	Charge(uid uint32, c nic.Cost) error
	Refund(uid uint32, c nic.Cost)
}

// A Config has what a Manager uses. Devices and Accounts must be set.
type Config struct {
	Devices  []Device
	Accounts Accounts
	// Calls f, unless stop is called before; nil means time.AfterFunc.
	After func(d time.Duration, f func()) (stop func())

	// Unpolled reports whether a queue pair of the user has completions that its program has
	// not polled yet. nil: that is not known, and events do not wait for it.
	Unpolled func(uid, qpn uint32) bool

	Now func() time.Time // nil means time.Now

	// Wire leads to other engines and hosts. nil: there is none.
	Wire Wire
}

// A Manager is the connection manager of one engine. Safe for concurrent use.
type Manager struct {
	Config

	mu       sync.Mutex
	channels map[*Channel]bool
	ids      map[uint32]*id
	groups   map[uint32]*group
	ports    map[portKey]*portUse
	// Requests for services that do not listen yet, by the sender's link.
	waiting  map[remote]*request
	awaited  map[portKey]map[*request]bool // the same, by port
	recent   map[portKey]*ending           // ports whose listener has just ended
	links    map[linkNumber]*id            // ids that have a connection, by their number in messages
	peers    map[remote]*id                // ids that a request has made, by the link that sent it
	carrier  Carrier                       // takes messages to where they belong
	arrived  []Packet                      // messages that are delivered at the end of the command
	leaving  []outgoing                    // datagrams that are sent then
	nextID   uint32
	nextMC   uint32
	lastPort uint16
	// Number of connections that others have requested and that are not complete, by the other end's address.
	halfOpen      map[PortAddress]int
	budgets       *budget.Sources // budgets of requests from elsewhere
	detachedLinks int             // number of links without a program
	counts        WireStats       // of datagrams
	removed       bool            // the device has gone
}

// New returns a connection manager.
func New(c Config) *Manager {
	if c.After == nil {
		c.After = func(d time.Duration, f func()) (stop func()) {
			t := time.AfterFunc(d, f)
			return func() { t.Stop() }
		}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	m := &Manager{
		halfOpen: make(map[PortAddress]int), budgets: budget.NewSources(requestsEach, requestsAll),
		Config: c, channels: make(map[*Channel]bool), ids: make(map[uint32]*id),
		groups: make(map[uint32]*group), ports: make(map[portKey]*portUse),
		waiting: make(map[remote]*request), awaited: make(map[portKey]map[*request]bool),
		recent: make(map[portKey]*ending), links: make(map[linkNumber]*id), peers: make(map[remote]*id),
	}
	m.carrier = post{m}
	return m
}

// later calls f, under the lock, after a time, and then delivers the messages that f sent. Once
// stop was called, nothing refers to f; f may be under way then.
func (m *Manager) later(d time.Duration, f func()) (stop func()) {
	return m.After(d, func() {
		m.mu.Lock()
		defer m.unlock()
		f()
	})
}

// Costs that users are charged.
var (
	channelCost = nic.Cost{Memory: 12 << 10, Descriptors: 1} // with the pipe
	idCost      = nic.Cost{Memory: 2048}
	groupCost   = nic.Cost{Memory: 256}
	eventCost   = nic.Cost{Memory: 640}
)
