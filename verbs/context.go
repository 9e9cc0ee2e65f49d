//go:build linux && (amd64 || arm64)

package verbs

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/internal/unixsock"
	"golang.org/x/sys/unix"
)

// A uctx is a context: an opened device, which the kernel calls a ucontext. A uctx is a
// client of the engine. It ends when the last copy of its socket is closed; any process can
// have a copy.
type uctx struct {
	s       *Server
	device  *device
	uid     uint32
	serial  uint32  // counts the contexts of the device, from 0
	opener  *opener // the process that opened the device
	inode   uint64
	cookie  uint64   // inode and cookie identify the program's end of the socket
	socket  *os.File // this server's end
	net     *netns   // namespace of the process that opened the device
	owner   *memory  // memory of the process that opened the device; addresses in WQEs are that process's
	lineage string
	name    string

	// Server.subscriptions guards these.
	subscribers []*subscriber // the processes that opened and adopted it
	released    bool          // the context has ended

	mu           sync.Mutex // held during a call
	ended        bool
	cost         nic.Cost // charged and not refunded
	client       nic.Client
	limits       *control.Welcome
	uar, status  *shm.Region
	banks        []*bank    // banks of UAR pages
	greeted      bool       // GET_CONTEXT was called
	devx         bool       // with firmware commands (DEVX)
	subs         eventTable // of events of firmware commands
	next         uint32
	objects      map[uint32]*object
	made         [len(kindNames)]uint32 // how many of objects are of a kind
	domains      map[uint32]*pd         // protection domains, by the engine's number
	dms          map[int]*dm            // device memory, by index
	umems        map[uint32]*umem
	lastUMEM     uint32       // number of the umem that was made last
	dmabufs      map[int]bool // addresses in the engine that dma-bufs have, see dmabufSpace
	regions      map[*extent]*region
	regionSerial uint64              // serial number of the next region
	mixed        bool                // it has had regions of other processes than its opener
	busy         []*extent           // their regions wait to be dropped; see dropBusy
	rings        []*ringMemory       // memory that small rings share
	channels     map[uint64]*channel // completion channels, by the cookie of the program's end
	asyncs       []*async
	numbers      map[uint64]eventSource // by kind and number (numberOf); without the objects in targets
	held         map[*object]func()     // what ends the use of a path to another engine; nil: of the own port
	targets      map[uint32][]*qp       // handles of queue pairs of type XRC_RECV, by number
	subscriber   *subscriber            // the subscriber of the process that opened the device
	events       *os.File
	listened     chan struct{} // closed when all of events has been passed on
}

// newContext opens a device for a process. The second result is the program's end of the
// socket.
func (s *Server) newContext(d *device, p *process) (_ *uctx, theirs *os.File, err error) {
	x := &uctx{
		s: s, net: p.net, device: d, uid: p.uid, lineage: p.lineage, name: p.name, owner: p.memory,
		subscriber: p.subscriber, next: 1, objects: make(map[uint32]*object), domains: make(map[uint32]*pd),
		dms: make(map[int]*dm), dmabufs: make(map[int]bool), umems: make(map[uint32]*umem),
		regions:  make(map[*extent]*region),
		channels: make(map[uint64]*channel), numbers: make(map[uint64]eventSource),
		targets: make(map[uint32][]*qp),
		subs: eventTable{subscriptions: make(map[occasion][]*subscription),
			handles: make(map[uint64]uint64)},
		listened: make(chan struct{}),
	}
	x.opener, x.serial = p.opener, d.counts[kindNone].Add(1)-1
	if err := x.charge(contextCost); err != nil {
		return nil, nil, err
	}
	x.client, err = s.engine.Attach(fmt.Sprintf("%s %s", p.name, d.name), p.uid,
		nic.Hosted{PID: int(p.pid), UARPages: uarPages, GID: d.linkLocal(), LID: d.lid, Port: uint8(d.index),
			PlainChannels: true, SameKeys: true})
	if err != nil {
		x.refund(contextCost)
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			x.refund(contextCost)
			_ = x.client.Close()
			_ = closeFiles(x.socket, x.events, theirs)
		}
	}()
	m, r, err := x.request(control.OpHello, &control.Hello{Magic: control.Magic, Major: control.Major,
		Minor: control.Minor, Features: control.FeatureWake, Name: d.name})
	if err != nil {
		return nil, nil, err
	}
	x.limits, x.uar, x.status = m.(*control.Welcome), r.UAR, r.Status
	if _, r, err = x.request(control.OpOpenEvents, &control.Empty{}); err != nil {
		return nil, nil, err
	}
	x.events = r.Events
	x.socket, theirs, err = unixsock.Pair("context")
	if err != nil {
		return nil, nil, err
	}
	x.inode, err = inodeOf(theirs)
	if err != nil {
		return nil, nil, err
	}
	x.cookie, err = cookieOf(theirs)
	if err != nil {
		return nil, nil, err
	}
	_ = unixsock.Control(x.socket, func(fd int) error { return unix.Shutdown(fd, unix.SHUT_RD) })
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, nil, refuse(eIO, "the server is ending")
	case s.contexts[x.inode] != nil:
		return nil, nil, refuse(eNOMEM, "inode %d is in use", x.inode)
	}
	s.contexts[x.inode] = x
	s.share(x.net)
	s.watched.note(Began, x.lineage, x.uid)
	go x.listen()
	go x.await()
	return x, theirs, nil
}

// user returns the context's program as a user of links.
func (x *uctx) user() nic.User { return nic.User{UID: x.uid, Name: x.name} }

func inodeOf(f nic.File) (uint64, error) {
	var st unix.Stat_t
	err := unixsock.Control(f, func(fd int) error { return unix.Fstat(fd, &st) })
	return st.Ino, err
}

// cookieOf returns the cookie of a socket, a number that no other socket has. An inode
// number does not identify a socket: a socket file in another file system can have the same
// inode number, and fstat shows a socket if a program opens that file with O_PATH.
func cookieOf(f nic.File) (cookie uint64, err error) {
	err = unixsock.Control(f, func(fd int) error {
		cookie, err = unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_COOKIE)
		return err
	})
	return cookie, err
}

func closeFiles(files ...*os.File) error {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
	return nil
}

// await waits until the last copy of the program's end of the socket is closed, and ends
// the context. It does not read from the socket: reading would close descriptors that a
// program has sent, and closing one can block for as long as the program likes.
func (x *uctx) await() {
	if raw, err := x.socket.SyscallConn(); err == nil {
		_ = raw.Read(func(uintptr) bool { return x.hungUp() })
	}
	x.end()
}

// hungUp reports whether the last copy of the program's end of the socket is closed. It does
// not wait.
func (x *uctx) hungUp() (up bool) {
	_ = unixsock.Control(x.socket, func(fd int) error {
		up = unixsock.HungUp(fd)
		return nil
	})
	return up
}

// end destroys everything that was made in a context.
func (x *uctx) end() {
	x.passOn() // without the lock, which events of objects need
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended {
		return
	}
	x.ended = true
	x.s.mu.Lock()
	delete(x.s.contexts, x.inode)
	x.s.mu.Unlock()
	x.endUARs()
	x.leaveDomains()
	x.unsubscribeAll()
	_ = x.client.Close()
	x.releasePaths()
	x.dropRings()
	for e, r := range x.regions {
		for range r.users {
			e.m.endHold(e)
		}
	}
	for _, d := range x.dms {
		d.memory.m.endHold(d.memory)
	}
	for _, o := range x.objects {
		switch o := o.self.(type) {
		case *mr:
			x.removeOwn(o, o.extents)
		case *qp:
			x.s.domains.leaveTarget(o)
		}
	}
	x.endEvents()
	x.refund(x.cost)
	x.s.leave(x.net)
	for _, ch := range x.channels {
		if ch.reader != nil {
			_ = ch.reader.Close()
		}
	}
	for _, a := range x.asyncs {
		_ = closeFiles(a.mine, a.reader)
	}
	_ = closeFiles(x.socket, x.events)
	x.s.log.Debug("verbs context closed", "program", x.name, "device", x.device.name,
		"objects", len(x.objects))
	clear(x.objects)
	clear(x.domains)
	clear(x.dms)
	clear(x.umems)
	clear(x.dmabufs)
	clear(x.regions)
	clear(x.channels)
	clear(x.numbers)
	clear(x.targets)
	x.s.watched.note(Ended, x.lineage, x.uid)
}

// request sends a request to the engine and returns its answer.
func (x *uctx) request(op control.Op, req control.Message) (control.Message, control.Reply, error) {
	return x.client.Call(op, body(op, req))
}

// body returns a request without its header.
func body(op control.Op, req control.Message) []byte {
	return control.Append(nil, op, 0, 0, req)[control.HeaderSize:]
}

// command does the same as request, for requests whose answer is empty.
func (x *uctx) command(op control.Op, req control.Message) error {
	_, _, err := x.request(op, req)
	return err
}

func (x *uctx) addRegion(e *extent) (uint32, error) { return x.client.AddRegion(e.addr, e.mem) }

// dropRegion has the engine drop a region, and reports whether the device has stopped using
// it.
func (x *uctx) dropRegion(id uint32) bool {
	err := x.command(control.OpDropRegion, &control.RegionID{ID: id})
	if err != nil && !errors.Is(err, &control.Error{Code: control.CodeBusy}) {
		x.s.report(x.uid, nil, slog.LevelError, "verbs region not dropped", "program", x.name, "region", id,
			"error", err)
	}
	return err == nil
}
