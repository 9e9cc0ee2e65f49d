//go:build linux && (amd64 || arm64)

package engine

import (
	"errors"
	"os"
	"sync"

	"github.com/nicless/nicless/engine/internal/copying"
	"github.com/nicless/nicless/engine/internal/quota"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/shm"
)

// A client is one connection to the device, with all objects made through it. These objects
// are destroyed with the client. Call and Close are safe for concurrent use; they run one
// at a time.
type client struct {
	e     *device
	shard *shard // changes only while all shards are stopped
	name  string // for the log: what the kernel says of the client, then its name from hello in quotes
	uid   uint32 // the user that its resources are charged to

	mu     sync.Mutex // one call at a time
	closed bool
	uar    *shm.Region
	status *shm.Region
	page   statusPage
	hosted nic.Hosted    // what the server that hosts the client asks for
	local  bool          // the client is part of this process, and makes its regions' memory itself
	banks  []*shm.Region // banks of UAR pages in addition to uar
	posted uint32        // its number in the announcements; 0: it has announced nothing yet. bulletin.mu guards it
	paid   quota.Charge  // charge for the client itself

	// The following fields belong to the shard: only its thread and functions in Do touch them.
	regions   map[uint32]*region
	unplaced  map[uint32]*region // created and not placed yet
	process   *process           // owner of memory registered outside regions; nil: such memory is refused
	pds       map[uint32]*pd
	mrs       map[uint32]*mkey // by index, because the variant can change
	cqs       map[uint32]*cq
	qps       map[uint32]*qp
	srqs      map[uint32]*srq
	xrcds     map[uint32]*xrcd
	channels  map[uint32]*channel
	sched     clientSchedule
	seats     [rosterKinds]int // its places on the rosters of its shard, plus 1; 0: it is not on that roster
	pass      clientPass       // what the shard's looks have still to look at; see look.go
	arms      clientArms       // its CQs that can be armed
	greeted   bool
	events    *notifier // of events and explanations; nil: none is open
	wake      clientWake
	quiet     explainer
	said      nic.Speaker // counts the client's explanations in the log
	bytes     uint64      // size of all regions together, placed or not
	count     counts
	copier    copying.Copier // copies long transfers past the caches
	offloaded int            // number of the client's copy tasks that workers have
	after     []func()       // what is left to do off the engine's thread after a request; see finish
	added     uint64         // number of calls of AddRegion that have made a region, or tried to
	nextID    uint32         // for the next region, PD or channel; each client has ids of its own
	linked    int            // queue pairs whose peer is on another device
	gids      []nic.GID      // GID table; nil: the client has only hosted.GID
	sources   []nic.Source   // of its datagrams that go over links and come over them
}

// A clientSchedule says which of a client's queues a step visits; see active.go.
type clientSchedule struct {
	warm      []*qp   // queues that have had work lately
	next      int     // index in warm of the queue to visit next
	active    bool    // the client is in shard.sched.active
	watches   []watch // one for each of its queue pairs that is not in RST
	patrolled int     // index in watches of the watch that patrol polled last
	stalled   []*qp   // its queue pairs whose next WQE waits; see stall.go
	retried   int     // index in stalled of the queue pair that was retried last
}

// A clientWake is how a client wakes the device; see wake.go.
type clientWake struct {
	fd     *os.File // an eventfd; nil: the client cannot wake the device
	always bool     // all its posters wake the device
}

// attachLocal returns a new client that is part of this process. The log uses name for it.
func (e nicDevice) attachLocal(name string) (*caller, error) { return e.attachLocalWith(name, nil) }

// attachLocalWith is attachLocal with UAR pages in memory that registers makes, if it is not nil.
func (e nicDevice) attachLocalWith(name string, registers func(size int) (*shm.Region, error)) (*caller, error) {
	create := shm.CreateSealed
	if shm.RaceEnabled {
		// The race detector does not watch mapped memory; see package shm.
		create = func(_ string, size int) (*shm.Region, error) { return shm.Heap(size) }
	}
	createUAR := create
	if registers != nil {
		createUAR = func(_ string, size int) (*shm.Region, error) { return registers(size) }
	}
	c, err := e.attach(name, uint32(os.Getuid()), nic.Hosted{}, createUAR, create)
	if err == nil {
		c.local = true
	}
	return c, err
}

// attach returns a new client. create makes the client's UAR pages, and createReadOnly makes
// its status page. If the client is in another process, it must be able to map these pages.
func (e nicDevice) attach(name string, uid uint32, hosted nic.Hosted, create, createReadOnly func(string, int) (*shm.Region, error)) (*caller, error) {
	e.fillHosted(&hosted)
	if err := e.ledger.Take(uid, clientCharge); err != nil {
		return nil, err
	}
	c := &caller{r: e, client: &client{
		e: e.device, name: name, uid: uid, hosted: hosted, paid: clientCharge,
		regions: make(map[uint32]*region), unplaced: make(map[uint32]*region), pds: make(map[uint32]*pd),
		mrs: make(map[uint32]*mkey), cqs: make(map[uint32]*cq),
		qps: make(map[uint32]*qp), channels: make(map[uint32]*channel),
		srqs: make(map[uint32]*srq), xrcds: make(map[uint32]*xrcd),
		nextID: 1,
	}}
	err := c.makePages(create, createReadOnly)
	if err != nil {
		e.ledger.Refund(uid, clientCharge)
		return nil, err
	}
	e.Do(func() { e.loops[e.leastLoaded().number].addClient(c.client) })
	return c, nil
}

func (c *caller) makePages(create, createReadOnly func(string, int) (*shm.Region, error)) (err error) {
	if c.uar, err = create("uar", c.hosted.UARPages*shm.PageSize); err != nil {
		return err
	}
	if c.status, err = createReadOnly("status", shm.PageSize); err != nil {
		_ = c.uar.Close()
		return err
	}
	// If memory is short (vm.overcommit_memory 2), this client is refused. Otherwise the device
	// would later touch a page that the system cannot provide, and that would end the process.
	if err = errors.Join(c.uar.Populate(c.uar.Bytes()), c.status.Populate(c.status.Bytes())); err != nil {
		_ = errors.Join(c.uar.Close(), c.status.Close())
		return control.Errorf(control.CodeMemory, "%v", err)
	}
	c.page = newStatusPage(c.status.Bytes())
	return nil
}

// Close destroys all objects of the client. The client's peers see transport errors; other
// clients do not notice. A second call does nothing.
func (c *caller) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	c.e.leaveBoard(c.client)
	var regions []*region
	for more := true; more; {
		c.do(makesWork, "end of the connection", func() { regions, more = c.destroySome() })
	}
	c.finish()
	c.unmap(regions) // can take long, so not on the engine's thread
	c.e.ledger.Refund(c.uid, c.paid)
	return nil
}

// portion is how many objects are destroyed between two steps. Other clients wait during
// that time.
const portion = 64

// destroySome destroys a portion of this client's objects, and reports whether there are
// more. With the last portion it returns the client's regions. No object refers to them
// any more.
func (c *caller) destroySome() (regions []*region, more bool) {
	left := portion
	destroy(c.qps, c.leaveQP, &left)
	destroy(c.mrs, c.removeKey, &left)
	destroy(c.srqs, c.removeSRQ, &left)
	destroy(c.cqs, c.removeCQ, &left)
	if left == 0 {
		return nil, true
	}
	for _, ch := range c.channels {
		c.closeChannel(ch)
	}
	for _, have := range []map[uint32]*region{c.regions, c.unplaced} {
		for _, r := range have {
			regions = append(regions, r)
		}
	}
	c.closeEvents()
	c.closeWakeFD()
	c.closeProcess()
	c.refund(len(c.pds) * pdCost)
	for _, d := range c.xrcds {
		for d.members[c.client] != nil {
			c.leaveXRCD(d)
		}
	}
	clear(c.regions)
	clear(c.unplaced)
	clear(c.pds)
	c.e.past.add(&c.count)
	c.loop().forgetClient(c.client)
	return regions, false
}

// destroy removes objects of one kind, at most *left, and counts *left down.
func destroy[T any](have map[uint32]T, remove func(T), left *int) {
	for n, x := range have {
		if *left == 0 {
			return
		}
		remove(x)
		delete(have, n)
		*left--
	}
}

// unmap releases the memory of regions, and the client's own pages.
func (c *caller) unmap(regions []*region) {
	for _, r := range regions {
		if r.owned {
			c.r.releaseMemory(c.uid, r.mem)
		}
	}
	for _, m := range c.banks {
		c.r.releaseMemory(c.uid, m)
	}
	_ = c.status.Close()
	held := quota.Charge{quota.Mappings: 1}
	if c.uar.File() != nil {
		held[quota.Descriptors] = 1
	}
	c.paid = c.paid.Minus(held)
	c.r.unmap(c.uid, c.uar, held)
}

// names reports whether an object of this client has the id.
func (c *caller) names(id uint32) bool {
	return c.regions[id] != nil || c.unplaced[id] != nil || c.pds[id] != nil || c.channels[id] != nil
}

func notFound(kind string, id uint32) error {
	return control.Errorf(control.CodeNotFound, "%s %#x: this client has none with that number", kind, id)
}

// busy refuses to destroy an object that other objects use. users is their number. one and
// many name their kind, in the singular and in the plural.
func busy(kind string, id uint32, users int, one, many string) error {
	by := many
	if users == 1 {
		by = one
	}
	return control.Errorf(control.CodeBusy, "%s %#x: still used by %d %s", kind, id, users, by)
}

func (c *client) String() string { return "client " + c.name }
