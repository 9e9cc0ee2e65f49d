package nicless

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/rendezvous"
)

// Connections by names: DialName and Listener. Package rendezvous has their messages; the
// engines carry it from box to box. A goroutine reads the box of a client, from the first dial or listener on
// until the client ends.

// minorBox is the minor version of the protocol that has boxes for messages.
const minorBox = 10

const (
	// The first message is sent again after resendFirst, and the next ones after twice the time before, up to
	// resendMost. A pool carries a message and its answer in less than a millisecond, and a path through a
	// continent in 100.
	resendFirst = 100 * time.Millisecond
	resendMost  = time.Second

	// silenceMost is how long the other side may say nothing at all before it is given up: ten times
	// resendMost, which none of ten messages survives only if the path is of no use. It is counted in pauses
	// between messages, so time in which this program was stopped or had no core does not count.
	silenceMost = 10 * time.Second

	// rememberTime is how long a connection that is made, or was refused, is remembered, for late copies of
	// messages; rememberMost is how many of them are.
	rememberTime = 30 * time.Second
	rememberMost = 4096
)

// boxAddress is the place of a box, as a message names it.
type boxAddress struct {
	device uint64
	number uint64
	gid    [16]byte
}

func (a boxAddress) sameBox(b boxAddress) bool { return a.device == b.device && a.number == b.number }

// names is the part of a client that dials and listens.
type names struct {
	opening sync.Mutex // held while the box is opened
	opened  bool       // the box is open; with mu

	news chan struct{} // a message waits, perhaps; made with the box

	mu        sync.Mutex
	box       uint64
	change    chan struct{}             // closed when announcements have changed; nil: nobody waits
	dials     map[uint64]*dialling      // under way, by ID
	listeners map[string]*Listener      // by name
	calls     map[callKey]*IncomingDial // that others have begun, also those that are over
	over      []finished                // what is over and is remembered, the oldest first
	ready     map[uint64]boxAddress     // dials of this client that are over: their listeners get Ready again
}

// A callKey names a dial of another client. The sender of a message is certain if it came by a pool or UCX,
// and otherwise as certain as an IP address; both numbers are random.
type callKey struct {
	device, box, id uint64
}

// A finished is a dial that is over.
type finished struct {
	since time.Time
	call  callKey // of another client
	id    uint64  // of this client, if it is not 0
}

// changed wakes those who wait for announcements to change.
func (n *names) changed() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.change != nil {
		close(n.change)
		n.change = nil
	}
}

// nextChange returns a channel that is closed when announcements change.
func (n *names) nextChange() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.change == nil {
		n.change = make(chan struct{})
	}
	return n.change
}

// messagesWait wakes the goroutine that reads the box.
func (n *names) messagesWait() {
	n.mu.Lock()
	news := n.news
	n.mu.Unlock()
	select {
	case news <- struct{}{}:
	default: // it has not been opened, or will look anyway
	}
}

// openBox opens the box of this client and begins to read it, if that has not been done.
func (c *client) openBox(what string) error {
	if err := c.err(); err != nil {
		return wrap(what, err)
	}
	if c.limits.Minor < minorBox {
		return wrap(what, control.Errorf(control.CodeUnsupported,
			"the engine's protocol is %d.%d; connections by names are since %d.%d", c.limits.Major, c.limits.Minor, control.Major, minorBox))
	}
	n := &c.names
	n.opening.Lock()
	defer n.opening.Unlock()
	if n.opened {
		return nil
	}
	n.mu.Lock()
	n.news = make(chan struct{}, 1) // before the box is open: the first event may come at once
	n.mu.Unlock()
	var b control.Box
	if _, err := c.call(what, control.OpOpenBox, &control.Empty{}, &b); err != nil {
		return err
	}
	n.mu.Lock()
	n.box = b.Number
	n.dials, n.listeners = make(map[uint64]*dialling), make(map[string]*Listener)
	n.calls, n.ready = make(map[callKey]*IncomingDial), make(map[uint64]boxAddress)
	n.mu.Unlock()
	n.opened = true
	go c.readBox()
	return nil
}

// readBox reads messages until the client ends.
func (c *client) readBox() {
	for {
		for {
			var m control.BoxMessage
			_, err := c.call("next message", control.OpNextMessage, &control.Empty{}, &m)
			if err != nil || m.Number == 0 {
				break
			}
			c.takeMessage(&m)
		}
		select {
		case <-c.names.news:
		case <-c.ended:
			return
		}
	}
}

// takeMessage acts on a message that was in the box. Anything can be in it.
func (c *client) takeMessage(b *control.BoxMessage) {
	m, err := rendezvous.ParseMessage(b.Value)
	if err != nil {
		return
	}
	from := boxAddress{b.Device, b.Number, b.GID}
	switch m.Kind {
	case rendezvous.Dial:
		c.takeDial(from, m)
	case rendezvous.Ready, rendezvous.Cancel:
		c.names.mu.Lock()
		call := c.names.calls[callKey{from.device, from.number, m.ID}]
		c.names.mu.Unlock()
		if call != nil {
			call.receive(m.Kind)
		}
	default: // of a listener
		c.names.mu.Lock()
		d := c.names.dials[m.ID]
		listener, known := c.names.ready[m.ID]
		c.names.mu.Unlock()
		switch {
		case d != nil:
			d.receive(from, m)
		case known && m.Kind == rendezvous.Accept && listener.sameBox(from):
			_ = c.sendMessage(from, rendezvous.Message{Kind: rendezvous.Ready, ID: m.ID})
		case !known && m.Kind == rendezvous.Accept: // the dial was given up, and the Cancel was lost
			_ = c.sendMessage(from, rendezvous.Message{Kind: rendezvous.Cancel, ID: m.ID})
		}
	}
}

// sendMessage sends a message. Messages are lost now and then, so the caller sends it again, unless an
// error says that this is of no use.
func (c *client) sendMessage(to boxAddress, m rendezvous.Message) error {
	b := &control.BoxMessage{Device: to.device, Number: to.number, GID: to.gid, Value: string(m.Append(nil))}
	_, err := c.call("message", control.OpSendMessage, b, &control.Empty{})
	return err
}

// useless reports whether an error of sendMessage will be there the next time too.
func useless(err error) bool {
	return err != nil && !errors.Is(err, ErrBusy) && !errors.Is(err, ErrLimit)
}

// remember keeps what is over for a while, for late copies of messages. The caller holds mu.
func (n *names) remember(f finished) {
	f.since = time.Now()
	n.over = append(n.over, f)
	for len(n.over) > 0 && (len(n.over) > rememberMost || f.since.Sub(n.over[0].since) > rememberTime) {
		old := n.over[0]
		n.over = n.over[1:]
		if old.id != 0 {
			delete(n.ready, old.id)
		} else {
			delete(n.calls, old.call)
		}
	}
}

// describe returns a Descriptor for the other side of a connection by name, in at most so many bytes.
func (q *QP) describe(memory []RemoteMemory, most int) (string, error) {
	d := q.Descriptor(memory...)
	b, err := d.MarshalBinary()
	if err == nil && len(b) > most {
		err = control.Errorf(control.CodeInvalid,
			"%d pieces of memory need %d bytes with the queue pair; at most %d are possible here: send the others over the connection", len(memory), len(b), most)
	}
	return string(b), err
}

// describedBy reads the Descriptor that the other side has sent of its queue pair. A link that knows the
// engine of the sender, or the address from which a message came, is believed, and not the message: else it
// could have this side connect to somebody else.
func describedBy(from boxAddress, body string) (d Descriptor, err error) {
	if err := d.UnmarshalBinary([]byte(body)); err != nil {
		return d, err
	}
	d.Device = from.device
	if from.gid != ([16]byte{}) {
		d.Address = netip.AddrFrom16(from.gid).Unmap()
	}
	return d, d.check()
}

// forNames returns why a queue pair cannot be connected by a name through the Context, or nil.
func (q *QP) forNames(c *Context) error {
	switch {
	case q == nil:
		return control.Errorf(control.CodeInvalid, "no queue pair (nil)")
	case q.usable() != nil:
		return q.usable()
	case q.c != c.client:
		return control.Errorf(control.CodeInvalid, "QP %#06x was made through another Context", q.qpn)
	case q.transport == UD:
		return control.Errorf(control.CodeInvalid, "QP %#06x is UD and has no peer; RC and UC are possible", q.qpn)
	case State(q.state.Load()) != StateINIT:
		return control.Errorf(control.CodeState, "QP %#06x is in %v; one in INIT is needed, as CreateQP makes it", q.qpn, State(q.state.Load()))
	}
	return nil
}

// chance returns a random number that is not 0.
func chance() (n uint64) {
	for n == 0 {
		var b [8]byte
		_, _ = rand.Read(b[:]) // it never fails
		n = binary.LittleEndian.Uint64(b[:])
	}
	return n
}
