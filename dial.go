package nicless

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/rendezvous"
)

// ErrRejected is in the error of DialName if the listener has refused the dialler. The error has the
// listener's reason.
var ErrRejected = errors.New("nicless: the listener has refused")

// DialName connects a queue pair with one that a program gives to its Listener, on this engine or on any to
// which a link leads, and returns the Descriptor of the peer. When it returns, both queue pairs can send. q
// is RC or UC, made through this Context and not connected yet; receives may have been posted. memory is
// what the listener's program may use: all of it together needs at most 67 bytes, 21 and the bytes of the
// name for each piece.
//
// The name is one of these:
//
//	NAME           the one program that announces it, to this user or to all
//	NAME@ENGINE    on the engine with that number, 16 hexadecimal digits: Context.Device
//	NAME@ADDRESS   on the engine at that IP address, over RoCE: one that listens for all (ListenConfig).
//	               That engine needs --link roce:ADDRESS; auto suffices at the dialler's
//
// DialName does not wait for a name that nobody announces: its error, for which errors.Is(err, ErrNotFound)
// holds, names those that are announced; see WaitName. It is also an error if several programs announce the
// name. If the listener goes, its dial fails, or goes on with the program that announces the name by then.
// DialName waits until the listener's program accepts, which can take as long as ctx allows, but not for a
// listener that says nothing for 10 seconds.
//
// The Device of the result is 0 if the engine at the ADDRESS is one to which a pool or UCX leads too.
//
// After an error q is in INIT, where another dial may use it, or the error came from connecting it: then
// Close it or take it to RST. Many goroutines may dial at once, each with a queue pair of its own.
func (c *Context) DialName(
	ctx context.Context, name string, q *QP, o Connection, memory ...RemoteMemory,
) (Descriptor, error) {
	what := fmt.Sprintf("dial %q", name)
	if c.client == nil {
		return Descriptor{}, wrap(what, errZero)
	}
	t, err := parseTarget(name)
	if err != nil {
		return Descriptor{}, wrap(what, err)
	}
	return c.dial(ctx, what, t, q, o, memory)
}

// DialClient is DialName for the client that has announced a, and listens under name: however many clients
// do. It reads no announcements. If the client has gone, and its engine does not say so, DialClient waits as
// long as for a listener that says nothing.
func (c *Context) DialClient(
	ctx context.Context, a *Announcement, name string, q *QP, o Connection, memory ...RemoteMemory,
) (Descriptor, error) {
	what := fmt.Sprintf("dial %q of client %d of engine %016x", name, a.Client, a.Device)
	err := rendezvous.CheckName(name)
	switch {
	case c.client == nil:
		err = errZero
	case err == nil && a.Box == 0:
		err = control.Errorf(control.CodeNotFound, "the client listens under no name")
	}
	if err != nil {
		return Descriptor{}, wrap(what, err)
	}
	return c.dial(ctx, what, target{name: name, engine: a.Device, box: a.Box}, q, o, memory)
}

func (c *Context) dial(
	ctx context.Context, what string, t target, q *QP, o Connection, memory []RemoteMemory,
) (Descriptor, error) {
	d, err := c.startDial(what, t, q, o, memory)
	if err != nil {
		return Descriptor{}, err
	}
	defer d.end()
	peer, err := d.run(ctx)
	return peer, wrap(what, err)
}

// WaitName waits until DialName would find a name: until somebody announces NAME or NAME@ENGINE. A name
// with an ADDRESS is not waited for. Names come over links within some 50 ms, and 120 ms in
// a pool where nothing has happened for a while.
func (c *Context) WaitName(ctx context.Context, name string) error {
	what := fmt.Sprintf("wait for %q", name)
	if c.client == nil {
		return wrap(what, errZero)
	}
	to, err := parseTarget(name)
	if err != nil {
		return wrap(what, err)
	}
	for {
		changed := c.names.nextChange()
		_, err := c.find(what, to)
		if !errors.Is(err, ErrNotFound) {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return wrap(what, errors.Join(ctx.Err(), err))
		case <-c.ended:
			return wrap(what, c.err())
		}
	}
}

// A target is what a program dials.
type target struct {
	name    string
	engine  uint64     // 0: any
	box     uint64     // of the client of that engine; 0: who announces the name
	address netip.Addr // zero: none
}

func parseTarget(s string) (t target, err error) {
	var at string
	var named bool
	t.name, at, named = strings.Cut(s, "@")
	if err := rendezvous.CheckName(t.name); err != nil || !named {
		return t, err
	}
	if len(at) == 16 {
		n, err := strconv.ParseUint(at, 16, 64)
		if err == nil && n != 0 {
			t.engine = n
			return t, nil
		}
	}
	a, err := netip.ParseAddr(at)
	if a = a.Unmap(); err != nil || a.Zone() != "" || a.IsUnspecified() {
		return t, control.Errorf(control.CodeInvalid, "%q follows the @; the number of an engine (16 hexadecimal digits) or an IP address is possible", at)
	}
	t.address = a
	return t, nil
}

// silent is the error of a dial that nobody answers.
func (t target) silent() error {
	err := fmt.Errorf("the listener, or the engine there, says nothing for %v", silenceMost)
	if t.address.IsValid() {
		return fmt.Errorf("%w; an engine hears of names over RoCE with --link roce:%v, because --link auto opens no address for them", err, t.address)
	}
	return err
}

// find returns the box of the one program that announces a name.
func (c *Context) find(what string, t target) (boxAddress, error) {
	if t.box != 0 {
		return boxAddress{device: t.engine, number: t.box}, nil
	}
	if t.address.IsValid() {
		if t.address != c.address() {
			return boxAddress{gid: t.address.As16()}, nil
		}
		t.engine = c.limits.GUID
	}
	list, err := c.announcements(what)
	if err != nil {
		return boxAddress{}, err
	}
	var found []boxAddress
	var others []string
	for _, a := range list {
		_, n := rendezvous.Split(a.Value)
		switch {
		case slices.Contains(n.List, t.name) && (t.engine == 0 || t.engine == a.Device):
			found = append(found, boxAddress{device: a.Device, number: n.Box})
		default:
			for _, name := range n.List {
				if strings.HasPrefix(name, ".") {
					continue
				}
				others = append(others, fmt.Sprintf("%s@%016x", name, a.Device))
			}
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		var where []string
		for _, f := range found {
			where = append(where, fmt.Sprintf("%016x", f.device))
		}
		return boxAddress{}, wrap(what, control.Errorf(control.CodeInvalid,
			"%d programs announce it, on the engines %s; dial NAME@ENGINE, if they are not on one engine", len(found), some(where)))
	case len(others) == 0:
		return boxAddress{}, wrap(what, control.Errorf(control.CodeNotFound,
			"no other program announces any name to this one, on this engine (%016x) or on those to which pools and UCX lead", c.limits.GUID))
	}
	return boxAddress{}, wrap(what, control.Errorf(control.CodeNotFound, "no other program announces it; announced are: %s", some(others)))
}

// some returns the first few of a list, and how many there are beside them, sorted.
func some(list []string) string {
	const most = 8 // more are no help in an error
	slices.Sort(list)
	list = slices.Compact(list)
	if more := len(list) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), more)
	}
	return strings.Join(list, ", ")
}

// A dialling is a dial under way.
type dialling struct {
	c       *Context
	what    string
	target  target
	q       *QP
	o       Connection
	id      uint64
	body    string
	replies chan reply // what the listener says
}

// A reply is a message of a listener.
type reply struct {
	from boxAddress
	rendezvous.Message
}

func (c *Context) startDial(
	what string, t target, q *QP, o Connection, memory []RemoteMemory,
) (*dialling, error) {
	err := q.forNames(c)
	if err == nil {
		err = o.fill()
	}
	if err != nil {
		return nil, wrap(what, err)
	}
	if err := c.openBox(what); err != nil {
		return nil, err
	}
	body, err := q.describe(memory, rendezvous.MaxDialBody)
	if err != nil {
		return nil, wrap(what, err)
	}
	d := &dialling{c: c, what: what, target: t, q: q, o: o, id: chance(), body: body}
	d.replies = make(chan reply, 8)
	c.names.mu.Lock()
	c.names.dials[d.id] = d
	c.names.mu.Unlock()
	return d, nil
}

func (d *dialling) end() {
	d.c.names.mu.Lock()
	defer d.c.names.mu.Unlock()
	delete(d.c.names.dials, d.id)
}

// receive is called for messages about the dial. More than the channel holds are copies of each other.
func (d *dialling) receive(from boxAddress, m rendezvous.Message) {
	select {
	case d.replies <- reply{from, m}:
	default:
	}
}

// run dials until the listener has accepted or refused, or until it makes no sense any more.
func (d *dialling) run(ctx context.Context) (Descriptor, error) {
	changed := d.c.names.nextChange()
	to, err := d.c.find(d.what, d.target)
	if err != nil {
		return Descriptor{}, unwrapped(err)
	}
	pause, silent := resendFirst, time.Duration(0) // see silenceMost
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			if silent > silenceMost {
				_ = d.c.sendMessage(to, rendezvous.Message{Kind: rendezvous.Cancel, ID: d.id})
				return Descriptor{}, d.target.silent()
			}
			err := d.c.sendMessage(to,
				rendezvous.Message{Name: d.target.name, Kind: rendezvous.Dial, ID: d.id, Body: d.body})
			if useless(err) {
				return Descriptor{}, unwrapped(err)
			}
			again.Reset(pause)
			silent += pause
			pause = min(2*pause, resendMost)
		case m := <-d.replies:
			if !d.isFrom(m.from, to) {
				continue
			}
			silent = 0
			switch m.Kind {
			case rendezvous.Accept:
				return d.accepted(m)
			case rendezvous.Reject:
				return Descriptor{}, fmt.Errorf("%w: %s", ErrRejected, strings.ToValidUTF8(m.Body, "?"))
			}
		case <-changed:
			changed = d.c.names.nextChange()
			now, err := d.c.find(d.what, d.target)
			switch {
			case err != nil:
				_ = d.c.sendMessage(to, rendezvous.Message{Kind: rendezvous.Cancel, ID: d.id})
				return Descriptor{}, fmt.Errorf("the listener has gone: %w", unwrapped(err))
			case now != to: // the name has moved
				to, pause, silent = now, resendFirst, 0
				again.Reset(0)
			}
		case <-ctx.Done():
			_ = d.c.sendMessage(to, rendezvous.Message{Kind: rendezvous.Cancel, ID: d.id})
			return Descriptor{}, ctx.Err()
		case <-d.c.ended:
			return Descriptor{}, d.c.err()
		}
	}
}

// isFrom reports whether a message comes from the listener. Which box that is at an IP address is not
// known, and an engine that has several addresses answers from one of them; but the ID, which is random,
// shows that it is an answer.
func (d *dialling) isFrom(from, to boxAddress) bool {
	if to.number != 0 {
		return from.sameBox(to)
	}
	return from.gid != [16]byte{}
}

// accepted connects the queue pair with the listener's.
func (d *dialling) accepted(m reply) (Descriptor, error) {
	peer, err := describedBy(m.from, m.Body)
	if err == nil {
		err = d.q.Connect(peer, d.o)
	}
	if err != nil {
		_ = d.c.sendMessage(m.from, rendezvous.Message{Kind: rendezvous.Cancel, ID: d.id})
		return Descriptor{}, fmt.Errorf("the listener has accepted, but: %w", err)
	}
	n := &d.c.names
	n.mu.Lock()
	n.ready[d.id] = m.from // before Ready is sent: from now on, copies of Accept are answered
	n.remember(finished{id: d.id})
	n.mu.Unlock()
	// If the link has no room now, the listener's next copy of Accept is answered.
	if err := d.c.sendMessage(m.from, rendezvous.Message{Kind: rendezvous.Ready, ID: d.id}); useless(err) {
		return Descriptor{}, unwrapped(err)
	}
	return peer, nil
}

// unwrapped returns the error in an opError, to which the caller adds what it does itself.
func unwrapped(err error) error {
	if e := (*opError)(nil); errors.As(err, &e) {
		return e.err
	}
	return err
}
