package nicless

import (
	"fmt"
	"sync"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/rendezvous"
)

// MaxAnnouncement is the most bytes of an announcement.
const MaxAnnouncement = control.MaxAnnouncement

// minorAnnounce is the minor version of the protocol that has OpAnnounce and OpNextAnnouncement.
const minorAnnounce = 3

// minorAudience is the minor version that has OpAnnounceTo. Before it, announcements were for all users.
const minorAudience = 4

// An Announcement is what a client of this engine or of a linked one has announced. Any client can
// announce anything: only Device is certain, as far as the links to other engines are. An
// announcement gives no rights, but it may contain what does, such as a key of memory.
type Announcement struct {
	Device uint64 // the engine, as in Descriptor.Device
	Client uint32 // number of the client in its engine; not used again while the engine lives
	Value  []byte

	// Box is the number of the client's box if it listens under a name, and otherwise 0. It is certain as far
	// as Device is: it tells whether IncomingDial.Caller is the client, and DialClient needs it.
	Box uint64
}

// Announce sends up to MaxAnnouncement bytes, such as a Descriptor, to the other clients of the same user:
// clients of this engine, and of the engines to which pools and UCX lead. A new announcement replaces
// the last; an empty one withdraws it. It ends with the Context. RoCE carries no announcements.
//
// The user is the one that the kernel has named to the engine when the program connected. A uid in a range of
// /etc/subuid counts as the user who owns the range. On other hosts it is the user with the same uid.
// Announce returns an error if the program's uid has no number in the engine's user namespace.
//
// Other engines read all announcements, and choose which users read them: announce no keys over a link to an
// engine that you do not trust.
//
// Announce does not wait for other engines. A link carries only as many announcements of an engine as
// it has room for, about 8000 bytes; the engine's log names the rest.
func (c *Context) Announce(value []byte) error {
	return c.announce(control.AudienceUser, value)
}

// AnnounceToAll is Announce for clients of all users, on all those engines. All users who may connect to one
// of them read the value: do not put keys of memory into it that are not for all.
func (c *Context) AnnounceToAll(value []byte) error {
	return c.announce(control.AudienceAll, value)
}

// announcing is what a client announces: the value of the program, and the names under which it listens.
type announcing struct {
	mu       sync.Mutex
	audience uint32 // of value
	value    string
	to       uint32 // the audience of names
	names    rendezvous.Names
}

func (c *Context) announce(audience uint32, value []byte) error {
	const what = "announce"
	if err := c.canAnnounce(what); err != nil {
		return err
	}
	old := c.limits.Minor < minorAudience
	if old && audience != control.AudienceAll && len(value) > 0 {
		return wrap(what,
			control.Errorf(control.CodeUnsupported,
				"the engine's protocol is %d.%d, whose announcements are for everybody; those for one user are since %d.%d", c.limits.Major, c.limits.Minor, control.Major, minorAudience))
	}
	if len(value) > MaxAnnouncement {
		return wrap(what, control.Errorf(control.CodeInvalid, "announcement of %d bytes; at most %d are possible", len(value), MaxAnnouncement))
	}
	if old {
		_, err := c.call(what, control.OpAnnounce, &control.Announce{Value: string(value)}, &control.Empty{})
		return err
	}
	a := &c.announcing
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := c.announceBoth(what, audience, string(value), a.to, a.names); err != nil {
		return err
	}
	a.audience, a.value = audience, string(value)
	return nil
}

// announceBoth announces a value and names, which have one audience if there are both. The caller holds the
// lock of c.announcing.
func (c *Context) announceBoth(
	what string, audience uint32, value string, to uint32, n rendezvous.Names,
) error {
	switch {
	case value == "":
		audience = to
	case len(n.List) > 0 && audience != to:
		return wrap(what, control.Errorf(control.CodeInvalid,
			"this Context cannot announce for one user and listen for all, or the other way; another Context can do one of both"))
	}
	joined, err := rendezvous.Join(value, n)
	if err != nil {
		return wrap(what, err)
	}
	m := &control.AnnounceTo{Audience: audience, Value: joined}
	_, err = c.call(what, control.OpAnnounceTo, m, &control.Empty{})
	return err
}

// Announcements returns what other clients announce now to this client's user or to all, sorted by Device and
// Client. When that has changed, NextEvent returns one event of kind EventAnnouncements. The next such event
// comes only after another call of Announcements.
func (c *Context) Announcements() ([]Announcement, error) {
	c.requestChange()
	all, err := c.announcements("announcements")
	if err != nil {
		return nil, err
	}
	var list []Announcement
	for _, a := range all {
		if value, n := rendezvous.Split(a.Value); value != "" {
			list = append(list,
				Announcement{Device: a.Device, Client: a.Client, Value: []byte(value), Box: n.Box})
		}
	}
	return list, nil
}

// requestChange says that the program waits for the next change of the announcements.
func (c *Context) requestChange() {
	if c.client != nil {
		c.wantsChange.Store(true)
	}
}

// announcements returns the announcements of others as they are, with their names. The device then sends one
// event when they change.
func (c *Context) announcements(what string) ([]control.Announcement, error) {
	if err := c.canAnnounce(what); err != nil {
		return nil, err
	}
	if c.limits.Minor < minorChanges {
		return c.readAnnouncements(what)
	}
	return c.others.current(c, what)
}

// readAnnouncements reads all announcements of others.
func (c *Context) readAnnouncements(what string) ([]control.Announcement, error) {
	var all []control.Announcement
	var place control.AnnouncementPlace
	for {
		var a control.Announcement
		if _, err := c.call(what, control.OpNextAnnouncement, &place, &a); err != nil {
			return nil, err
		}
		next := a.AnnouncementPlace
		switch {
		case next.Client == 0:
			return all, nil
		case next.Device < place.Device || next.Device == place.Device && next.Client <= place.Client:
			return nil, wrap(what, fmt.Errorf("the engine lists client %d of engine %016x after client %d of engine %016x", next.Client, next.Device, place.Client, place.Device))
		}
		place = a.AnnouncementPlace
		all = append(all, a)
	}
}

// announcementsChanged tells those who wait for a name, and reports whether the program is to get the event.
func (c *client) announcementsChanged() bool {
	c.names.changed()
	return c.wantsChange.Swap(false)
}

// canAnnounce returns why the engine has no announcements for this context, or nil.
func (c *Context) canAnnounce(what string) error {
	if err := c.err(); err != nil {
		return wrap(what, err)
	}
	if c.limits.Minor < minorAnnounce {
		return wrap(what,
			control.Errorf(control.CodeUnsupported,
				"the engine's protocol is %d.%d; announcements are since %d.%d", c.limits.Major,
				c.limits.Minor, control.Major, minorAnnounce))
	}
	return nil
}
