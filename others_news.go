package nicless

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/nicless/nicless/internal/control"
)

// minorChanges is the minor version of the protocol that has OpNextChange.
const minorChanges = 11

// An othersNews is the announcements of others as a Context has read them last. It reads all of them once,
// and then those that have changed: in a rack of a thousand engines, each of which may have more than one, a
// request for each of them, whenever one changes, would occupy all programs and engines.
type othersNews struct {
	mu   sync.Mutex
	all  []control.Announcement // sorted by place
	upTo uint64                 // changes up to this number are in all
	read bool                   // all has been read
}

// current returns the announcements of others as they are now. The device then sends one event when they
// change. Changes that come while it reads wait for the next call: it ends, however often others announce.
func (o *othersNews) current(c *Context, what string) ([]control.Announcement, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	since := o.upTo
	if !o.read {
		since = ^uint64(0) // only the number of the newest change is of interest
	}
	first, err := c.nextChange(what, since, 1)
	if err != nil {
		return nil, err
	}
	if !o.read || first.Dropped != 0 {
		err = o.readAll(c, what)
	} else {
		err = o.readChanged(c, what, first)
	}
	if err != nil {
		return nil, err
	}
	o.upTo = first.Newest
	return slices.Clone(o.all), nil
}

// readAll reads all announcements.
func (o *othersNews) readAll(c *Context, what string) (err error) {
	o.all, err = c.readAnnouncements(what)
	o.read = err == nil
	return err
}

// readChanged reads the announcements that have changed, from the first of them up to the change that was the
// newest when it was returned.
func (o *othersNews) readChanged(c *Context, what string, first *control.Change) error {
	next := first
	for next.Client != 0 && next.Number <= first.Newest {
		if err := o.readOne(c, what, next.AnnouncementPlace); err != nil {
			return err
		}
		before := next.Number
		var err error
		next, err = c.nextChange(what, before, 0)
		switch {
		case err != nil:
			return err
		case next.Dropped != 0:
			return o.readAll(c, what)
		case next.Client != 0 && next.Number <= before:
			return wrap(what, fmt.Errorf("the engine lists change %d after change %d", next.Number, before))
		}
	}
	return nil
}

// readOne reads the announcement of one client, which may have ended.
func (o *othersNews) readOne(c *Context, what string, place control.AnnouncementPlace) error {
	before := control.AnnouncementPlace{Device: place.Device, Client: place.Client - 1}
	var now control.Announcement
	if _, err := c.call(what, control.OpNextAnnouncement, &before, &now); err != nil {
		return err
	}
	i, found := slices.BinarySearchFunc(o.all, place, comparePlaces)
	if found {
		o.all = slices.Delete(o.all, i, i+1)
	}
	if now.AnnouncementPlace == place {
		o.all = slices.Insert(o.all, i, now)
	}
	return nil
}

func comparePlaces(x control.Announcement, y control.AnnouncementPlace) int {
	return cmp.Or(cmp.Compare(x.Device, y.Device), cmp.Compare(x.Client, y.Client))
}

// nextChange returns the first change of announcements after a number. With notify 1, the device sends an
// event when something changes after this call.
func (c *Context) nextChange(what string, since uint64, notify uint32) (*control.Change, error) {
	var next control.Change
	_, err := c.call(what, control.OpNextChange, &control.ChangesSince{Since: since, Notify: notify}, &next)
	return &next, err
}
