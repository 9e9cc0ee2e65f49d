package costs

import "github.com/nicless/nicless/model"
import "fmt"

// A Request is a request of an agent to the memory system for one line.
type Request uint8

// The requests. Those of cores: Known loads a line whose address the core knows before it needs it, so
// that loads overlap. Those of a CXL device are the hints of the coherence engine of CXL-NIC: NC leaves
// nothing in the device's cache, CS a shared copy, CO an owned one, and NCPush writes into the host's
// last-level cache. A Bell is what a PCIe device gets instead of polling a record: the host's
// write to a register.
const (
	CoreLoad Request = iota
	CoreKnown
	CoreStore
	CoreStoreNT
	CoreFlush
	NCRead
	CSRead
	CORead
	NCWrite
	COWrite
	NCPush
	DevFlush
	DMARead
	DMAWrite
	Bell
	requests // number of requests
)

var requestNames = []string{"load", "load-known", "store", "store-nt", "flush",
	"NC-read", "CS-read", "CO-read", "NC-write", "CO-write", "NC-P", "dev-flush", "DMA-read", "DMA-write",
	"doorbell"}

func (r Request) String() string { return requestNames[r] }

// A set of MESI states, of places in the host, and of agents.
type (
	mesiSet  uint8
	placeSet uint8
	agentSet uint8
)

const (
	isI     mesiSet = 1 << I
	isS     mesiSet = 1 << S
	isE     mesiSet = 1 << E
	isM     mesiSet = 1 << M
	isSE            = isS | isE
	isEM            = isE | isM
	isSEM           = isS | isE | isM
	isISE           = isI | isS | isE
	anyMESI         = isI | isSEM
)

// Places in the host, from the point of view of a core: it holds the line alone, it and another do,
// another core does, none does.
const (
	mine placeSet = 1 << iota
	both
	theirs
	llc
	anyPlace = mine | both | theirs | llc
	held     = mine | both
	lone     = theirs | llc
)

const (
	cores  agentSet = 1<<model.Host | 1<<model.Peer
	device agentSet = 1 << model.Dev
	all             = cores | device
)

// An Order says how the stores of an agent become visible, beyond one at a time.
type Order uint8

// The orders. Buffered stores of a core overlap while they fetch ownership, and become visible in
// order. Awaited writes overlap without any order, so the agent waits for the answers to earlier writes (GO;
// of a flush, a fence) before it writes a signal or a completion. Posted writes become visible in order by
// themselves.
const (
	Buffered Order = iota
	Awaited
	Posted
)

// A Rule says what a request costs and changes in some states. Sets say to which states it applies.
type Rule struct {
	Req  Request
	Who  agentSet
	Home Home
	Bias Bias
	Host mesiSet
	At   placeSet // where in the host, if the host has the line; for the device: theirs means any core
	Dev  mesiSet

	Msgs  []string // messages on the link, by the names of Linux's CXL PMU events
	Path  []string // prices until the requester has its data or ownership
	Shown []string // further prices until the other side can see a store

	NextHost  mesiSet // one state; zero: unchanged
	NextCores move
	NextDev   mesiSet // one state; zero: unchanged
	Order     Order
}

// A move says which cores hold the line afterwards.
type move uint8

const (
	same move = iota
	none      // no core; in the LLC, if the host has it
	only      // only the requester
	join      // the requester too
)

// applies reports whether the rule is for a request that who makes for a line in state s.
func (r *Rule) applies(who model.Agent, req Request, s State) bool {
	return r.Req == req && r.Who>>who&1 != 0 && r.Home == s.Home && r.Bias == s.Bias &&
		r.Host>>s.Host&1 != 0 && r.Dev>>s.Dev&1 != 0 && (s.Host == I || r.At&place(who, s.Cores) != 0)
}

// place returns where the host's copy is for the agent who.
func place(who model.Agent, c Cores) placeSet {
	own := Cores(1) << who & AllCores
	switch {
	case c == InLLC:
		return llc
	case c == own:
		return mine
	case c&own != 0:
		return both
	}
	return theirs
}

// next returns the state after the request of agent who.
func (r *Rule) next(who model.Agent, s State) State {
	if r.NextHost != 0 {
		s.Host = one(r.NextHost)
	}
	if r.NextDev != 0 {
		s.Dev = one(r.NextDev)
	}
	own := Cores(1) << who & AllCores
	switch r.NextCores {
	case none:
		s.Cores = InLLC
	case only:
		s.Cores = own
	case join:
		s.Cores |= own
	}
	return s
}

func one(set mesiSet) MESI {
	for m := I; m <= M; m++ {
		if set == 1<<m {
			return m
		}
	}
	panic(fmt.Sprintf("model: %04b is not one state", set))
}

// A Fabric is a set of rules for one kind of interconnect.
type Fabric struct {
	Name  string
	Homes []Home // memories that the fabric has
	Rules []Rule

	// Reads and Writes are the requests that a device can use. The first is the default. A device
	// that has none is a core.
	Reads, Writes []Request

	// Bells says that the device does not poll records: the host rings it.
	Bells bool
}

// find returns the rule for a request.
func (f *Fabric) find(who model.Agent, req Request, s State) (*Rule, error) {
	for i := range f.Rules {
		if f.Rules[i].applies(who, req, s) {
			return &f.Rules[i], nil
		}
	}
	return nil, fmt.Errorf("fabric %s has no rule for a %v by %v in state %v", f.Name, req, who, s)
}

// fabrics lists all fabrics.
var fabrics = []*Fabric{mesi, cxlCache, cxlType2, pcie, poolPlain, poolCoherent}

// fabricNamed returns the fabric of that name, or nil.
func fabricNamed(name string) *Fabric {
	for _, f := range fabrics {
		if f.Name == name {
			return f
		}
	}
	return nil
}

// prices is a list of names of prices.
func prices(names ...string) []string { return names }

// joinRules concatenates tables of rules.
func joinRules(tables ...[]Rule) (all []Rule) {
	for _, t := range tables {
		all = append(all, t...)
	}
	return all
}
