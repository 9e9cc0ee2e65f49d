package nicless

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/rendezvous"
)

// A client dials another one that it knows by its announcement, among several with one name, and the other
// sees who has dialled.
func TestDialClient(t *testing.T) {
	for name, links := range twoEngines(t) {
		t.Run(name, func(t *testing.T) {
			link := links(t)
			a, err := Open(Config{Links: link[0]})
			require.NoError(t, err)
			defer a.Close()
			left, right := named(t, a), named(t, dialed(t, inProcess(t, Config{Links: link[1]})))
			for _, c := range []byName{left, right} {
				_, err := c.ListenName("same", ListenConfig{})
				require.NoError(t, err)
			}
			require.NoError(t, left.Announce([]byte("left")))
			l, err := right.ListenName(".hidden", ListenConfig{})
			require.NoError(t, err)
			require.NoError(t, right.Announce([]byte("right")))
			of := func(c byName, value string) (found Announcement) {
				await.Until(t, value+" is known", func() bool {
					list, err := c.Announcements()
					require.NoError(t, err)
					for _, one := range list {
						if string(one.Value) == value && one.Box != 0 {
							found = one
						}
					}
					return found.Box != 0
				})
				return found
			}
			theirs := of(left, "right")
			accepted := make(chan error, 1)
			go func() {
				call, err := l.Accept(await.Context(t))
				if err == nil {
					device, box := call.Caller()
					ours := of(right, "left")
					if device != ours.Device || box != ours.Box || call.GaveUp() {
						err = fmt.Errorf("dialled by box %x of %x", box, device)
					}
				}
				if err == nil {
					err = call.Accept(await.Context(t), right.newQP(t), Connection{})
				}
				accepted <- err
			}()
			_, err = left.DialClient(await.Context(t), &theirs, ".hidden", left.newQP(t), Connection{})
			require.NoError(t, err)
			require.NoError(t, <-accepted)
			_, err = left.DialClient(await.Context(t), &Announcement{Device: theirs.Device}, "x", left.newQP(t), Connection{})
			require.ErrorIs(t, err, ErrNotFound)
			// Names that begin with a dot are no help to who has mistyped one.
			_, err = left.DialName(await.Context(t), "absent", left.newQP(t), Connection{})
			require.ErrorContains(t, err, "announced are: same@")
			require.NotContains(t, err.Error(), "hidden")
		})
	}
}

// A client cannot announce names with the box of another, which would be dialled in its place.
func TestBoxOfAnother(t *testing.T) {
	path := inProcess(t, Config{})
	a, b := dialed(t, path), dialed(t, path)
	_, err := a.ListenName("a", ListenConfig{})
	require.NoError(t, err)
	_, err = b.ListenName("b", ListenConfig{})
	require.NoError(t, err)
	value, err := rendezvous.Join("x", rendezvous.Names{Box: a.names.box, List: []string{"b"}})
	require.NoError(t, err)
	for _, op := range []control.Op{control.OpAnnounce, control.OpAnnounceTo} {
		var m control.Message = &control.Announce{Value: value}
		if op == control.OpAnnounceTo {
			m = &control.AnnounceTo{Value: value}
		}
		_, err = b.call("announce", op, m, &control.Empty{})
		require.ErrorContains(t, err, fmt.Sprintf("names with box %#016x, which is not the client's", a.names.box))
	}
}
