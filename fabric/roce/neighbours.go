//go:build linux && (amd64 || arm64)

package roce

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Linux keeps the link-layer address of each neighbour in a table, one for IPv4 and one for IPv6, which all
// network namespaces of the host share. With gc_thresh3 entries (1024 if nobody has changed it) it is full,
// and packets to further neighbours are dropped. To a UDP socket IPv4 says nothing of it, because it takes
// ENOBUFS for a full queue; IPv6 says EINVAL. The kernel counts the drops (table_fulls).

// A neighbourTable is the kernel's table of neighbours of one version of IP.
type neighbourTable struct {
	family string   // as in the names of sysctl
	files  []string // that have its counters; the first one that can be read counts
}

// Only the host's first namespace has the counters, which is usually that of process 1.
var neighbourTables = [...]neighbourTable{
	{"ipv4", []string{"/proc/net/stat/arp_cache", "/proc/1/net/stat/arp_cache"}},
	{"ipv6", []string{"/proc/net/stat/ndisc_cache", "/proc/1/net/stat/ndisc_cache"}},
}

// advice says how the table of neighbours gets more room. 16384 are for a rack of 128 engines in namespaces
// of one host, each with a path to each; on a host of its own, an engine needs an entry for each peer.
func advice(family string) string {
	return fmt.Sprintf("sysctl -w net.%[1]s.neigh.default.gc_thresh3=16384 net.%[1]s.neigh.default.gc_thresh2=8192, on the host", family)
}

// explain says why packets cannot be sent to a remote address.
func (f *fault) explain(p *path) string {
	if f.errno == unix.EINVAL && !p.remote.Is4() {
		return f.errno.Error() + ": the kernel's table of neighbours may be full (" + advice("ipv6") + ")"
	}
	return f.errno.Error()
}

// full returns how often the table had no room since the host was started; ok is false if that is not known.
func (t *neighbourTable) full() (n uint64, ok bool) {
	for _, name := range t.files {
		if b, err := os.ReadFile(name); err == nil {
			return parseNeighbourStat(b)
		}
	}
	return 0, false
}

// parseNeighbourStat returns the sum of the column table_fulls, in which each processor has a number. The
// first line has the names of the columns; numbers are hexadecimal.
func parseNeighbourStat(b []byte) (n uint64, ok bool) {
	lines := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	column := -1
	for i, name := range bytes.Fields(lines[0]) {
		if string(name) == "table_fulls" {
			column = i
		}
	}
	if column < 0 || len(lines) < 2 {
		return 0, false
	}
	for _, line := range lines[1:] {
		fields := bytes.Fields(line)
		if column >= len(fields) {
			return 0, false
		}
		v, err := strconv.ParseUint(string(fields[column]), 16, 64)
		if err != nil {
			return 0, false
		}
		n += v
	}
	return n, true
}

// A neighbourWatch reports full tables of neighbours in the log: when one is full, and each minute while
// packets are dropped because of it. maintain uses it.
type neighbourWatch struct {
	seen     [len(neighbourTables)]uint64    // the counts at the last look
	known    [len(neighbourTables)]bool      // there was a look
	loggedAt [len(neighbourTables)]time.Time // when the log had the last line; zero: never
	calls    uint64                          // of the sender, at the last look; counted from 1 on
}

// look is called about once a second. count returns how often a table had no room since the host was started.
// While a carrier sends nothing, it loses nothing by that, and count is not called: it opens files.
func (w *neighbourWatch) look(c *Carrier, now time.Time, count func(*neighbourTable) (uint64, bool)) {
	calls := c.sender.counts.calls.Load() + 1
	if calls == w.calls {
		return
	}
	w.calls = calls
	for i := range neighbourTables {
		t := &neighbourTables[i]
		n, ok := count(t)
		if !ok {
			continue
		}
		more := n - w.seen[i]
		first := !w.known[i]
		w.seen[i], w.known[i] = n, true
		if first || more == 0 {
			continue
		}
		total := c.neighboursFull[i].Add(more)
		if w.loggedAt[i].IsZero() || now.Sub(w.loggedAt[i]) >= repeatAfter {
			w.loggedAt[i] = now
			c.log.Warn("the kernel's table of neighbours is full: packets to hosts that are not in it are dropped",
				"dropped", total, "version", t.family, "help", advice(t.family))
		}
	}
}

// neighbourNotes says in sentences that the host's tables of neighbours were full since the carrier was made.
func (c *Carrier) neighbourNotes() (notes []string) {
	for i := range neighbourTables {
		if n := c.neighboursFull[i].Load(); n > 0 {
			family := neighbourTables[i].family
			notes = append(notes, fmt.Sprintf("dropped by the kernel of this host, of whatever program: %d packets, because its table of neighbours (%s) was full: %s",
				n, family, advice(family)))
		}
	}
	return notes
}
