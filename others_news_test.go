package nicless

import (
	"fmt"
	"sync"
	"testing"

	"github.com/nicless/nicless/internal/control"
	"github.com/stretchr/testify/require"
)

// requests checks how many requests f makes for c. There may be one more, with which a new client wakes the
// engine.
func requests(t *testing.T, want uint64, c *Context, f func()) {
	t.Helper()
	s := c.dev.(*socket)
	count := func() uint64 {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.tag
	}
	before := count()
	f()
	got := count() - before
	require.GreaterOrEqual(t, got, want)
	require.LessOrEqual(t, got, want+1)
}

// announcersOf returns Contexts that announce their numbers.
func announcersOf(t testing.TB, path string, n int) (all []*Context) {
	t.Helper()
	for i := range n {
		c := dialed(t, path)
		require.NoError(t, c.Announce(fmt.Append(nil, i)))
		all = append(all, c)
	}
	return all
}

// A Context reads all announcements once, and then those that have changed: two requests for each, and one
// that finds no more.
func TestAnnouncementsThatHaveChanged(t *testing.T) {
	path := inProcess(t, Config{})
	others := announcersOf(t, path, 40)
	c := dialed(t, path)
	var got []string
	read := func() { got = announced(t, c) }
	requests(t, 1+40+1, c, read) // the number of the newest change, all, and no more
	want := append([]string(nil), got...)
	requests(t, 1, c, read)
	require.Equal(t, want, got)

	require.NoError(t, others[7].Announce([]byte("seven")))
	require.NoError(t, others[9].Announce(nil))
	changed(t, c)
	requests(t, 1+2*2, c, read)
	want[7] = "seven"
	want = append(want[:9], want[10:]...)
	require.Equal(t, want, got)

	require.NoError(t, others[9].Announce([]byte("back")))
	changed(t, c)
	requests(t, 1+2, c, read)
	require.Equal(t, "back", got[9])
	quiet(t, c)
}

// Reading ends, though others announce all the time: each of them is read once at most.
func TestAnnouncementsEndTheirReading(t *testing.T) {
	path := inProcess(t, Config{})
	others := announcersOf(t, path, 4)
	c := dialed(t, path)
	announced(t, c)
	var wg sync.WaitGroup
	end := make(chan struct{})
	for i, o := range others {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-end:
					return
				default:
				}
				if err := o.Announce(fmt.Append(nil, i, n)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 50 {
		s := c.dev.(*socket)
		before := s.tag
		announced(t, c)
		require.LessOrEqual(t, s.tag-before, uint64(1+2*4+1), "and one that wakes the engine")
	}
	close(end)
	wg.Wait()
}

// A Context reads everything again if the engine has dropped what has changed, and always if the engine
// has an older protocol.
func TestAnnouncementsOfOtherEngines(t *testing.T) {
	path := inProcess(t, Config{})
	announcersOf(t, path, 3)
	c := dialed(t, path)
	require.Equal(t, []string{"0", "1", "2"}, announced(t, c))
	c.others.all = []control.Announcement{{AnnouncementPlace: control.AnnouncementPlace{Device: 1, Client: 1}, Value: "x"}}
	require.Equal(t, []string{"x"}, announced(t, c), "nothing is read again")
	c.limits.Minor = minorChanges - 1
	require.Equal(t, []string{"0", "1", "2"}, announced(t, c))
}

// BenchmarkAnnouncements: one of 1,000 clients announces something else, and another client reads what they
// announce.
func BenchmarkAnnouncements(b *testing.B) {
	const announcers = 1000
	for _, row := range []struct {
		name  string
		minor uint16
	}{{"changes", minorChanges}, {"all", minorChanges - 1}} {
		b.Run(row.name, func(b *testing.B) {
			path := inProcess(b, Config{})
			others := announcersOf(b, path, announcers)
			c := dialed(b, path)
			c.limits.Minor = row.minor
			n := 0
			for b.Loop() {
				n++
				require.NoError(b, others[n%announcers].Announce(fmt.Append(nil, n)))
				list, err := c.Announcements()
				require.NoError(b, err)
				require.Len(b, list, announcers)
			}
		})
	}
}
