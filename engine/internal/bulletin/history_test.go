//go:build linux && (amd64 || arm64)

package bulletin

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/nicless/nicless/internal/board"
	"github.com/nicless/nicless/internal/control"
	"github.com/stretchr/testify/require"
)

// all returns what a client reads from the beginning.
func all(b *Bulletin[string], c string, uid uint32) (list []control.Announcement) {
	var place control.AnnouncementPlace
	for {
		a := b.Next(c, uid, place)
		if a.Client == 0 {
			return list
		}
		list, place = append(list, *a), a.AnnouncementPlace
	}
}

// A follower has read everything once, and then reads what has changed.
type follower struct {
	name string
	uid  uint32
	upTo uint64
	has  []control.Announcement
}

// follow reads what has changed, and returns how many changes it has read.
func (f *follower) follow(t *testing.T, b *Bulletin[string], between func()) (changes int) {
	t.Helper()
	first := b.NextChange(f.name, f.uid, f.upTo, true)
	require.Zero(t, first.Dropped)
	for next := first; next.Client != 0 && next.Number <= first.Newest; changes++ {
		at := next.AnnouncementPlace
		f.has = slices.DeleteFunc(f.has, func(a control.Announcement) bool { return a.AnnouncementPlace == at })
		now := b.Next(f.name, f.uid, control.AnnouncementPlace{Device: at.Device, Client: at.Client - 1})
		if now.AnnouncementPlace == at {
			f.has = append(f.has, *now)
		}
		between()
		next = b.NextChange(f.name, f.uid, next.Number, false)
	}
	f.upTo = first.Newest
	return changes
}

// Whatever clients and links announce, and to whom, a client that reads what has changed knows what one knows
// that reads everything.
func TestFollowers(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		b := newBulletin()
		followers := []*follower{{name: "a", uid: 1000}, {name: "b", uid: 1001}, {name: "c", uid: 65534}}
		to := func() uint32 { return []uint32{1000, 1001, board.AllUsers}[random.IntN(3)] }
		value := func() string { return fmt.Sprint(random.IntN(3)) }
		step := func() {
			switch random.IntN(4) {
			case 0:
				b.Leave(fmt.Sprint("other ", random.IntN(4)))
			case 1:
				_, err := b.Post(followers[random.IntN(3)].name, device, to(), value())
				require.NoError(t, err)
			case 2:
				_, err := b.Post(fmt.Sprint("other ", random.IntN(4)), device, to(), value()[random.IntN(2):])
				require.NoError(t, err)
			default:
				var list []board.Entry
				for n := range uint32(random.IntN(4)) {
					list = append(list, board.Entry{Client: n + 1, User: to(), Value: value()})
				}
				b.Set([]string{"pool", "ucx"}[random.IntN(2)], 0x40+0x20*uint64(random.IntN(2)), list)
			}
		}
		for range 50 {
			for range random.IntN(4) {
				step()
			}
			for _, f := range followers {
				f.follow(t, b, func() {})
				slices.SortFunc(f.has, func(x, y control.Announcement) int {
					return posted{Announcement: x}.compare(y.AnnouncementPlace)
				})
				require.Equal(t, all(b, f.name, f.uid), append([]control.Announcement(nil), f.has...), "seed %d", seed)
			}
		}
	}
}

// Reading ends, though others announce all the time.
func TestFollowingEnds(t *testing.T) {
	b := newBulletin()
	const others = 8
	n := 0
	between := func() {
		n++
		announces(t, b, fmt.Sprint(n%others), fmt.Sprint(n))
	}
	for range others {
		between()
	}
	f := follower{name: "a"}
	for range 10 {
		require.LessOrEqual(t, f.follow(t, b, between), others)
	}
}

// A client that changes one thing all the time displaces nothing. Beyond the bound, a reader that is far
// behind reads everything.
func TestHistoryIsBounded(t *testing.T) {
	b := newBulletin()
	announces(t, b, "first", "x")
	for i := range 2 * maxHistory {
		announces(t, b, "loud", fmt.Sprint(i))
	}
	require.Len(t, b.history.numbers, 2)
	require.LessOrEqual(t, len(b.history.list), 2*maxHistory)
	change := b.NextChange("a", 1000, 0, false)
	require.Equal(t, control.Change{AnnouncementPlace: b.places["first"], Number: 1, Newest: 4 * maxHistory}, *change)
	for i := range maxHistory {
		c := fmt.Sprint("client ", i)
		announces(t, b, c, "x")
		b.Leave(c)
	}
	require.LessOrEqual(t, len(b.history.list), 2*maxHistory)
	require.Len(t, b.history.numbers, maxHistory)
	newest := b.history.newest
	require.Equal(t, control.Change{Dropped: 1, Newest: newest}, *b.NextChange("a", 1000, 0, false))
	require.Equal(t, control.Change{Newest: newest}, *b.NextChange("a", 1000, newest, false))
	require.Equal(t, control.Change{Newest: newest}, *b.NextChange("a", 1000, math.MaxUint64, false))
}

// A client learns of a change of what it could read, and of nothing else.
func TestWhoLearnsOfAChange(t *testing.T) {
	b := newBulletin()
	_, err := b.Post("alice", device, 1000, "x")
	require.NoError(t, err)
	require.Zero(t, b.NextChange("bob", 1001, 0, false).Client, "of another user")
	require.Zero(t, b.NextChange("alice", 1000, 0, false).Client, "its own")
	require.EqualValues(t, 1, b.NextChange("her other program", 1000, 0, false).Client)
	_, err = b.Post("alice", device, 1001, "x")
	require.NoError(t, err)
	require.EqualValues(t, 2, b.NextChange("her other program", 1000, 0, false).Number, "it ends for her user")
	require.EqualValues(t, 3, b.NextChange("bob", 1001, 0, false).Number)
}
