package lab

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
)

// An uptime is what the clock of a machine said between two times of the host.
type uptime struct {
	before, after time.Time
	guest         time.Duration
}

func (p *pair) uptimes() (list [2]uptime) {
	p.t.Helper()
	for i, n := range p.nodes {
		before := time.Now()
		said := n.run("cat", "/proc/uptime")
		after := time.Now()
		seconds, err := strconv.ParseFloat(strings.Fields(said)[0], 64)
		require.NoError(p.t, err)
		list[i] = uptime{before, after, time.Duration(seconds * float64(time.Second))}
	}
	return list
}

// goesLikeTheHosts checks the time that machines have counted between two readings: a machine whose clock is
// faster takes its peer for dead. However busy the host is, the true time is between the shortest and the
// longest that is possible.
func (p *pair) goesLikeTheHosts(first, second [2]uptime) {
	p.t.Helper()
	const granularity = 20 * time.Millisecond // twice that of /proc/uptime
	for i := range first {
		f, s := first[i], second[i]
		guest := s.guest - f.guest
		least, most := s.before.Sub(f.after), s.after.Sub(f.before)
		why := fmt.Sprintf("node %d counts %v; it were %v to %v", i, guest, least, most)
		require.GreaterOrEqual(p.t, guest+granularity+guest/100, least, why)
		require.LessOrEqual(p.t, guest-granularity-guest/100, most, why)
	}
}
