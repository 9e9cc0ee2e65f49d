//go:build linux && (amd64 || arm64)

package engine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/board"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/stretchr/testify/require"
)

// announcements returns what a client reads from the beginning.
func (h *host) announcements() (got []string) {
	h.Helper()
	for place := (control.AnnouncementPlace{}); ; {
		var a control.Announcement
		h.call(control.OpNextAnnouncement, &place, &a)
		if a.Client == 0 {
			return got
		}
		place = a.AnnouncementPlace
		got = append(got, fmt.Sprintf("%x/%d %s", a.Device, a.Client, a.Value))
	}
}

// Announcements of links are listed in order, from one link for each device, and never in the name
// of this device.
func TestAnnouncementsOfLinks(t *testing.T) {
	r := newRig(t, Config{})
	h := r.host("a")
	d := nic.Of(r.d)
	r.e.GUID = 0x50
	me := r.e.Bulletin.Users.Of(h.c.UID)
	h.call(control.OpAnnounce, &control.Announce{Value: "own"}, &control.Empty{})
	require.Equal(t, []board.Entry{{Client: 1, User: me, Value: "own"}}, d.Announced())
	other := r.host("b")
	other.call(control.OpAnnounce, &control.Announce{Value: "other"}, &control.Empty{})

	d.SetAnnounced("pool", 0x60, []board.Entry{{Client: 1, User: me, Value: "x"}, {Client: 9, User: me, Value: "y"}})
	d.SetAnnounced("pool", 0x40, []board.Entry{{Client: 2, User: me, Value: "z"}})
	d.SetAnnounced("pool", 0x50, []board.Entry{{Client: 7, User: me, Value: "forged"}})
	want := []string{"40/2 z", "50/2 other", "60/1 x", "60/9 y"}
	require.Equal(t, want, h.announcements())

	events := h.events()
	d.SetAnnounced("ucx", 0x60, []board.Entry{{Client: 1, User: me, Value: "by another way"}})
	require.Equal(t, want, h.announcements(), "the first link counts")
	require.Nil(t, events(), "nothing has changed")
	d.SetAnnounced("pool", 0x60, nil)
	require.Equal(t, &control.Event{Kind: control.EventAnnouncements}, events())
	d.SetAnnounced("pool", 0x61, []board.Entry{{Client: 1, User: me, Value: "x"}})
	d.SetAnnounced("pool", 0x61, nil)
	require.Nil(t, events(), "not before the client has read again")
	require.Equal(t, []string{"40/2 z", "50/2 other", "60/1 by another way"}, h.announcements())
	d.SetAnnounced("ucx", 0x60, nil)
	d.SetAnnounced("pool", 0x40, nil)
	d.SetAnnounced("pool", 0x30, nil)
	require.Equal(t, []string{"50/2 other"}, h.announcements())

	news := 0
	d.OnAnnounce(func() { news++ })
	other.call(control.OpAnnounce, &control.Announce{Value: "other"}, &control.Empty{})
	require.Zero(t, news, "the same as before")
	require.NoError(t, other.c.Close())
	require.Equal(t, 1, news)
	require.Equal(t, []board.Entry{{Client: 1, User: me, Value: "own"}}, d.Announced())
}

// A client whose event socket is full is notified of a later change.
func TestAnnouncementsAndAFullSocket(t *testing.T) {
	r := newRig(t, Config{})
	reader, writer := r.host("reader"), r.host("writer")
	events := reader.events()
	require.Empty(t, reader.announcements())
	for reader.c.Send(&control.Event{Kind: control.EventDrained}) {
	}
	writer.call(control.OpAnnounce, &control.Announce{Value: "first"}, &control.Empty{})
	for ev := events(); ev != nil; ev = events() {
		require.Equal(t, control.EventDrained, ev.Kind)
	}
	writer.call(control.OpAnnounce, &control.Announce{Value: "second"}, &control.Empty{})
	require.Equal(t, &control.Event{Kind: control.EventAnnouncements}, events())
	writer.call(control.OpAnnounce, &control.Announce{Value: "third"}, &control.Empty{})
	require.Nil(t, events())
}

func TestAnnouncementsOfAClosedClient(t *testing.T) {
	h := newRig(t, Config{}).host("a")
	require.NoError(t, h.c.Close())
	_, _, err := h.c.Call(control.OpNextAnnouncement, make([]byte, 16))
	require.ErrorIs(t, err, object.ErrClosed)
	_, _, err = h.c.Call(control.OpNextChange, make([]byte, 16))
	require.ErrorIs(t, err, object.ErrClosed)
	_, _, err = h.c.Call(control.OpAnnounce, nil)
	require.ErrorIs(t, err, object.ErrClosed)
}

func TestChangesAreRequestedRight(t *testing.T) {
	h := newRig(t, Config{}).host("a")
	h.refused(control.CodeInvalid, "notify 2; 0 and 1 are possible", control.OpNextChange, &control.ChangesSince{Notify: 2}, nil)
	_, _, err := h.c.Call(control.OpNextChange, make([]byte, 15))
	require.ErrorContains(t, err, "15 bytes")
}

// asUser makes a client one of another uid.
func (h *host) asUser(uid uint32) *host {
	h.c.UID = uid
	return h
}

// An announcement is for clients of the user, on this device and on others, or for all clients, and no
// other client learns that it has changed.
func TestAudiences(t *testing.T) {
	r := newRig(t, Config{})
	d := nic.Of(r.d)
	r.e.GUID = 0x50
	owner := map[uint32]uint32{100007: 1000} // alice has a range in /etc/subuid
	r.e.Bulletin.Users.Payer = func(uid uint32) uint32 {
		if o, ok := owner[uid]; ok {
			return o
		}
		return uid
	}
	alice, again, mapped := r.host("alice").asUser(1000), r.host("alice again").asUser(1000), r.host("alice's container").asUser(100007)
	bob, nobody := r.host("bob").asUser(1001), r.host("nobody").asUser(65534)
	all := []*host{alice, again, mapped, bob, nobody}
	var events []func() *control.Event
	for _, h := range all {
		require.Empty(t, h.announcements())
		events = append(events, h.events())
	}
	// told checks which clients are notified of a change, and what each of them reads.
	told := func(what string, who [5]bool, list ...string) {
		t.Helper()
		for i, h := range all {
			require.Equal(t, who[i], events[i]() != nil, "%s: client %d", what, i)
			var want []string
			for _, l := range list {
				for _, name := range strings.Split(strings.SplitN(l, ": ", 2)[0], ",") {
					if name == fmt.Sprint(i) {
						want = append(want, strings.SplitN(l, ": ", 2)[1])
					}
				}
			}
			require.Equal(t, want, h.announcements(), "%s: client %d", what, i)
		}
	}
	all0 := &control.AnnounceTo{Audience: control.AudienceAll}

	alice.call(control.OpAnnounce, &control.Announce{Value: "key"}, &control.Empty{})
	told("for the user", [5]bool{1: true, 2: true}, "1,2: 50/1 key")
	require.Equal(t, []board.Entry{{Client: 1, User: 1000, Value: "key"}}, d.Announced())
	mapped.call(control.OpAnnounceTo, &control.AnnounceTo{Value: "mapped"}, &control.Empty{})
	told("of a uid of the user", [5]bool{0: true, 1: true}, "1,2: 50/1 key", "0,1: 50/2 mapped")
	require.Equal(t, uint32(1000), d.Announced()[1].User)

	all0.Value = "hello"
	bob.call(control.OpAnnounceTo, all0, &control.Empty{})
	told("for all", [5]bool{0: true, 1: true, 2: true, 4: true}, "1,2: 50/1 key", "0,1: 50/2 mapped", "0,1,2,4: 50/3 hello")
	bob.call(control.OpAnnounce, &control.Announce{Value: "hello"}, &control.Empty{})
	told("the same for the user", [5]bool{0: true, 1: true, 2: true, 4: true}, "1,2: 50/1 key", "0,1: 50/2 mapped")
	bob.call(control.OpAnnounce, &control.Announce{}, &control.Empty{})
	told("what nobody else could read ends", [5]bool{}, "1,2: 50/1 key", "0,1: 50/2 mapped")

	nobody.refused(control.CodeInvalid, "uid 65534 stands for all users that have no uid here, so these are not one user; announce to all clients, or connect as a user that has one", control.OpAnnounce, &control.Announce{Value: "x"}, nil)
	nobody.refused(control.CodeInvalid, "audience 2; 0 (clients of the user) and 1 (all clients) are possible", control.OpAnnounceTo, &control.AnnounceTo{Audience: 2, Value: "x"}, nil)
	nobody.call(control.OpAnnounceTo, all0, &control.Empty{})
	nobody.call(control.OpAnnounce, &control.Announce{}, &control.Empty{})

	alice.call(control.OpAnnounce, &control.Announce{}, &control.Empty{})
	mapped.call(control.OpAnnounce, &control.Announce{}, &control.Empty{})
	for i, h := range all {
		for events[i]() != nil {
		}
		require.Empty(t, h.announcements())
	}
	d.SetAnnounced("pool", 0x60, []board.Entry{{Client: 1, User: 1000, Value: "a"}, {Client: 2, User: 1001, Value: "b"}, {Client: 3, User: board.AllUsers, Value: "c"}, {Client: 4, User: 65534, Value: "d"}, {Client: 5, User: 100007, Value: "e"}})
	told("of another device", [5]bool{true, true, true, true, true}, "0,1,2: 60/1 a", "3: 60/2 b", "0,1,2,3,4: 60/3 c")
	d.SetAnnounced("pool", 0x60, []board.Entry{{Client: 1, User: 1000, Value: "a"}, {Client: 2, User: 1000, Value: "b"}})
	told("the user changes", [5]bool{true, true, true, true, true}, "0,1,2: 60/1 a", "0,1,2: 60/2 b")
	d.SetAnnounced("pool", 0x60, []board.Entry{{Client: 1, User: 1000, Value: "a"}})
	told("of one user", [5]bool{0: true, 1: true, 2: true}, "0,1,2: 60/1 a")
}
