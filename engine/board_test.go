//go:build linux && (amd64 || arm64)

package engine

import (
	"fmt"
	"math"
	"testing"

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

// What links say of other devices: in order, from one link for each device, and never in the name of
// this device.
func TestAnnouncementsOfLinks(t *testing.T) {
	r := newRig(t, Config{})
	h := r.host("a")
	d := nic.Of(r.e.Engine)
	r.e.guid = 0x50
	h.call(control.OpAnnounce, &control.Announce{Value: "own"}, &control.Empty{})
	require.Equal(t, []board.Entry{{Client: 1, Value: "own"}}, d.Announced())
	other := r.host("b")
	other.call(control.OpAnnounce, &control.Announce{Value: "other"}, &control.Empty{})

	d.SetAnnounced("pool", 0x60, []board.Entry{{Client: 1, Value: "x"}, {Client: 9, Value: "y"}})
	d.SetAnnounced("pool", 0x40, []board.Entry{{Client: 2, Value: "z"}})
	d.SetAnnounced("pool", 0x50, []board.Entry{{Client: 7, Value: "forged"}})
	want := []string{"40/2 z", "50/2 other", "60/1 x", "60/9 y"}
	require.Equal(t, want, h.announcements())

	events := h.events()
	d.SetAnnounced("ucx", 0x60, []board.Entry{{Client: 1, Value: "by another way"}})
	require.Equal(t, want, h.announcements(), "the first link counts")
	require.Nil(t, events(), "nothing has changed")
	d.SetAnnounced("pool", 0x60, nil)
	require.Equal(t, &control.Event{Kind: control.EventAnnouncements}, events())
	d.SetAnnounced("pool", 0x61, []board.Entry{{Client: 1, Value: "x"}})
	d.SetAnnounced("pool", 0x61, nil)
	require.Nil(t, events(), "not before the client has read again")
	require.Equal(t, []string{"40/2 z", "50/2 other", "60/1 by another way"}, h.announcements())
	d.SetAnnounced("ucx", 0x60, nil)
	d.SetAnnounced("pool", 0x40, nil)
	d.SetAnnounced("pool", 0x30, nil)
	require.Empty(t, r.e.bulletin.sources)
	require.Equal(t, []string{"50/2 other"}, h.announcements())

	news := 0
	d.OnAnnounce(func() { news++ })
	other.call(control.OpAnnounce, &control.Announce{Value: "other"}, &control.Empty{})
	require.Zero(t, news, "the same as before")
	require.NoError(t, other.c.Close())
	require.Equal(t, 1, news)
	require.Equal(t, []board.Entry{{Client: 1, Value: "own"}}, d.Announced())
	require.NotContains(t, r.e.bulletin.waiting, other.c)
}

// A client whose event socket is full is told of a later change.
func TestAnnouncementsAndAFullSocket(t *testing.T) {
	r := newRig(t, Config{})
	reader, writer := r.host("reader"), r.host("writer")
	events := reader.events()
	require.Empty(t, reader.announcements())
	for reader.c.send(&control.Event{Kind: control.EventDrained}) {
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

func TestAnnouncementsAreBounded(t *testing.T) {
	r := newRig(t, Config{})
	h := r.host("a")
	b := &r.e.bulletin
	b.last = math.MaxUint32
	h.refused(control.CodeLimit, "4294967295 clients have announced something; there are no more numbers", control.OpAnnounce, &control.Announce{Value: "x"}, nil)
	b.last = 0
	for range maxAnnounced {
		_, err := b.post(&client{e: r.e.Engine}, "x")
		require.NoError(t, err)
	}
	h.refused(control.CodeLimit, "4096 clients announce something already; that is the most", control.OpAnnounce, &control.Announce{Value: "x"}, nil)
	h.call(control.OpAnnounce, &control.Announce{}, &control.Empty{})
	require.Len(t, h.announcements(), maxAnnounced)
	require.NoError(t, h.c.Close())
	_, _, err := h.c.Call(control.OpNextAnnouncement, make([]byte, 16))
	require.ErrorIs(t, err, errClosed)
	_, _, err = h.c.Call(control.OpAnnounce, nil)
	require.ErrorIs(t, err, errClosed)
}
