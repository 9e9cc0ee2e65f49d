package nicless

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/rendezvous"
)

// A ListenConfig says how a Listener behaves. The zero value is right for most programs.
type ListenConfig struct {
	// ToAll lets programs of all users dial, and those of other hosts over RoCE. If it is false, programs
	// of the same user can, as with Announce. All names of a Context have the same ToAll.
	ToAll bool

	// Backlog is how many dials may wait for Accept: 1 to MaxBacklog. Zero means MaxBacklog. Further diallers
	// wait until there is room.
	Backlog int
}

// MaxBacklog is the most dials that can wait for Accept: as many as messages wait in the engine.
const MaxBacklog = 128

// A Listener gets the dials of a name. Its methods are safe for concurrent use.
type Listener struct {
	c     *Context
	name  string
	toAll bool
	calls chan *IncomingDial
	done  chan struct{} // closed by Close
	once  sync.Once
}

// ListenName announces a name, to which other programs connect queue pairs by DialName: 1 to 63 bytes of
// UTF-8 without spaces and @. The name is announced until Close of the Listener or of the Context, to those
// whom ListenConfig says, on this engine and on all to which pools and UCX lead; over RoCE, who knows the
// IP address may dial too if ToAll is set, and the engine here has --link roce:ADDRESS: auto opens no address
// for a name. Errors that list names leave out those that begin with a dot.
//
// Names, and what the Context announces by Announce, share the MaxAnnouncement bytes of an announcement:
// each name takes its bytes and one more, all names together 17. Two programs may announce the same name;
// then nobody can dial it without the number of the engine. After a call of ListenName, the Context stays
// open until Close.
func (c *Context) ListenName(name string, cfg ListenConfig) (*Listener, error) {
	what := fmt.Sprintf("listen as %q", name)
	if c.client == nil {
		return nil, wrap(what, errZero)
	}
	if err := rendezvous.CheckName(name); err != nil {
		return nil, wrap(what, err)
	}
	if cfg.Backlog == 0 {
		cfg.Backlog = MaxBacklog
	}
	if cfg.Backlog < 1 || cfg.Backlog > MaxBacklog {
		return nil, wrap(what, control.Errorf(control.CodeInvalid, "Backlog %d; 1 to %d are possible, and 0 for %d", cfg.Backlog, MaxBacklog, MaxBacklog))
	}
	if err := c.openBox(what); err != nil {
		return nil, err
	}
	l := &Listener{c: c, name: name, toAll: cfg.ToAll, done: make(chan struct{})}
	l.calls = make(chan *IncomingDial, cfg.Backlog)
	to := control.AudienceUser
	if cfg.ToAll {
		to = control.AudienceAll
	}
	a := &c.announcing
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case slices.Contains(a.names.List, name):
		return nil, wrap(what, control.Errorf(control.CodeBusy, "this Context listens as %q already", name))
	case len(a.names.List) > 0 && a.to != to:
		return nil, wrap(what, control.Errorf(control.CodeInvalid, "ToAll %v; this Context listens as %q with %v, and all its names have the same", cfg.ToAll, a.names.List[0], !cfg.ToAll))
	}
	n := rendezvous.Names{Box: c.names.box, List: append(slices.Clone(a.names.List), name)}
	c.names.mu.Lock()
	c.names.listeners[name] = l // before the name is announced
	c.names.mu.Unlock()
	if err := c.announceBoth(what, a.audience, a.value, to, n); err != nil {
		l.leave()
		return nil, err
	}
	a.to, a.names = to, n
	return l, nil
}

// leave takes the listener out of the table.
func (l *Listener) leave() {
	l.c.names.mu.Lock()
	defer l.c.names.mu.Unlock()
	delete(l.c.names.listeners, l.name)
}

// Name returns the name.
func (l *Listener) Name() string { return l.name }

// String returns, for instance, `listener "db" of engine 0123456789abcdef`.
func (l *Listener) String() string {
	if l.c == nil {
		return "listener of no engine"
	}
	return fmt.Sprintf("listener %q of engine %016x", l.name, l.c.Device())
}

// Close withdraws the name. Dials that wait for Accept are refused, and Accept returns ErrClosed. Connections
// stay. A second Close does nothing.
func (l *Listener) Close() (err error) {
	if l == nil || l.c == nil {
		return errZero
	}
	l.once.Do(func() {
		err = l.withdraw()
		close(l.done)
		l.refuseWaiting()
	})
	return err
}

// withdraw takes the name out of what the Context announces.
func (l *Listener) withdraw() (err error) {
	a := &l.c.announcing
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.names
	n.List = slices.DeleteFunc(slices.Clone(n.List), func(s string) bool { return s == l.name })
	if l.c.err() == nil {
		err = l.c.announceBoth(fmt.Sprintf("close %v", l), a.audience, a.value, a.to, n)
	}
	a.names = n
	l.leave()
	return err
}

// refusedAtOnce is how many dials are refused at one time: the link to a dialler may have to open. Other
// requests wait behind them, because an engine of another process serves one of a Context at a time.
const refusedAtOnce = 4

// refuseWaiting refuses the dials that wait for Accept.
func (l *Listener) refuseWaiting() {
	var all sync.WaitGroup
	defer all.Wait()
	for range refusedAtOnce {
		all.Go(func() {
			for {
				select {
				case call := <-l.calls:
					_ = call.Reject("the listener has closed")
				default:
					return
				}
			}
		})
	}
}

// Accept waits for the next program that dials the name. Its error is ErrClosed if the Listener is closed, or
// says why ctx or the Context has ended. A dialler that has said nothing for 10 seconds is passed over.
func (l *Listener) Accept(ctx context.Context) (*IncomingDial, error) {
	if l == nil || l.c == nil {
		return nil, wrap("accept", errZero)
	}
	what := fmt.Sprintf("accept %q", l.name)
	for {
		select {
		case call := <-l.calls:
			if call.waits() {
				return call, nil
			}
		case <-l.done:
			return nil, wrap(what, ErrClosed)
		case <-ctx.Done():
			return nil, wrap(what, ctx.Err())
		case <-l.c.ended:
			return nil, wrap(what, l.c.err())
		}
	}
}

// takeDial acts on a Dial that has come, perhaps again.
func (c *client) takeDial(from boxAddress, m rendezvous.Message) {
	key := callKey{from.device, from.number, m.ID}
	n := &c.names
	n.mu.Lock()
	call, l := n.calls[key], n.listeners[m.Name]
	n.mu.Unlock()
	if call != nil {
		call.repeat()
		return
	}
	no := func(why string) {
		_ = c.sendMessage(from,
			rendezvous.Message{Kind: rendezvous.Reject, ID: m.ID, Body: rendezvous.Text(why)})
	}
	// A stranger may know the box, because the client has listened for all before, or has dialled.
	if l == nil || (!l.toAll && from.gid != [16]byte{}) {
		no(fmt.Sprintf("nobody listens as %q here any more", m.Name))
		return
	}
	peer, err := describedBy(from, m.Body)
	if err != nil {
		no(err.Error())
		return
	}
	call = &IncomingDial{c: l.c, key: key, from: from, peer: peer, received: make(chan rendezvous.Kind, 8)}
	call.dialCame()
	// The goroutine that reads the box is the only one that adds calls.
	n.mu.Lock()
	n.calls[key] = call
	n.mu.Unlock()
	select {
	case l.calls <- call:
	default:
		n.mu.Lock()
		delete(n.calls, key) // it comes again
		n.mu.Unlock()
	}
	_ = c.sendMessage(from, rendezvous.Message{Kind: rendezvous.Hold, ID: m.ID})
	select {
	case <-l.done: // Close may have emptied the channel before
		_ = call.Reject("the listener has closed")
	default:
	}
}

var errGaveUp = errors.New("the dialler has given up")
