//go:build linux && (amd64 || arm64)

package bulletin

import (
	"math"
	"testing"

	"github.com/nicless/nicless/internal/board"
	"github.com/nicless/nicless/internal/control"
	"github.com/stretchr/testify/require"
)

// device is the GUID of the device in these tests.
const device = 0x50

// newBulletin returns a bulletin whose clients are strings.
func newBulletin() *Bulletin[string] {
	return &Bulletin[string]{Users: UsersOf(func(uid uint32) uint32 { return uid })}
}

// announces is Post of what is for all users, and must succeed.
func announces(t *testing.T, b *Bulletin[string], c, value string) (notify []string) {
	t.Helper()
	notify, err := b.Post(c, device, board.AllUsers, value)
	require.NoError(t, err)
	return notify
}

func TestAnnouncementsAreBounded(t *testing.T) {
	b := newBulletin()
	b.last = math.MaxUint32
	_, err := b.Post("a", device, 7, "x")
	require.EqualError(t, err, "4294967295 clients have announced something; there are no more numbers")
	b.last = 0
	for i := range MaxAnnounced {
		_, err := b.Post(string(rune('a'+i)), device, 7, "x")
		require.NoError(t, err)
	}
	_, err = b.Post("one more", device, 7, "x")
	require.EqualError(t, err, "4096 clients announce something already; that is the most")
	announces(t, b, "one more", "")
	require.Len(t, b.Entries(), MaxAnnounced)
	announces(t, b, "a", "y")
	announces(t, b, "a", "")
	announces(t, b, "one more", "x")
	_, err = b.Post("a", device, 7, "x")
	require.ErrorContains(t, err, "that is the most", "it has a number already")
}

// Nothing is kept of a client that has left, and of a device of which no link says anything.
func TestNothingIsKept(t *testing.T) {
	b := newBulletin()
	announces(t, b, "a", "x")
	b.Next("a", 1000, control.AnnouncementPlace{})
	require.Equal(t, []string(nil), b.Leave("a"))
	b.Set("pool", 0x60, []board.Entry{{Client: 1, User: 7, Value: "x"}})
	b.Set("pool", 0x60, nil)
	require.Empty(t, b.own)
	require.Empty(t, b.places)
	require.Empty(t, b.readers)
	require.Empty(t, b.sources)
	require.Empty(t, b.linked)
}
