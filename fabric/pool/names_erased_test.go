package pool

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/nic"
)

// reach asks for the path to another node until both have the link. Links that end and begin again in a short
// time rest for some seconds.
func (n *node) reach(to *node, when string) {
	n.w.until(8*time.Second, func() bool {
		_, ok := n.pool.Route(nic.Address{GUID: to.guid})
		a, b := n.link(to.number), to.link(n.number)
		return ok && a != nil && b != nil && a.up && b.up
	}, when)
	require.Empty(n.w.t, n.w.problems(), when)
}

// useLinks lets two nodes begin and end their link in several ways. The names of those in erased are
// overwritten at store number at. It returns how many stores there were.
func useLinks(t *testing.T, at int, erased []int) (stores int) {
	_, n := needWorld(t, 1, 2<<20, 3, Config{})
	count := namer(func() {
		stores++
		if stores == at {
			for _, i := range erased {
				n[i].erase()
			}
		}
	})
	when := fmt.Sprintf("names of nodes %v are erased at store %d", erased, at)
	n[0].pool.view.cache, n[1].pool.view.cache = count, count
	n[0].reach(n[1], when)
	n[0].link(1).close("the test ends it")
	n[1].reach(n[0], when)
	n[1].link(0).down("the test ends the session")
	n[1].reach(n[0], when)
	n[1].link(0).close("the test ends it")
	n[0].link(1).close("the test ends it")
	n[0].reach(n[1], when)
	n[1].w.kill(n[1])
	n[1] = n[0].w.mustStart(Config{Node: 1})
	n[1].pool.view.cache = count
	n[1].reach(n[0], when)
	return stores
}

// Whenever others overwrite which nodes a table names, links begin all the same.
func TestNamesAreErasedAtEachStore(t *testing.T) {
	for _, erased := range [][]int{{0}, {1}, {0, 1}} {
		at := 1
		for at <= useLinks(t, at, erased) {
			at++
		}
		require.Greater(t, at, 100)
	}
}
