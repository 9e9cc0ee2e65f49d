//go:build linux && (amd64 || arm64)

package roce

import (
	"fmt"
	"strings"
	"time"
)

// Notes says in sentences what the carrier and the kernel have dropped since the carrier was made:
// from peers, to which this engine has requested a path, and from strangers; and packets of this host, for
// lack of room for neighbours. It is empty if no packet was dropped.
func (c *Carrier) Notes() (notes []string) {
	r := c.Stats().Received
	var peers, strangers []string
	for why := range Reasons {
		s := r.DroppedStrangers[why]
		if n := r.Dropped[why] - s; n > 0 {
			peers = append(peers, fmt.Sprintf("%d (%v)", n, why))
		}
		if s > 0 {
			strangers = append(strangers, fmt.Sprintf("%d (%v)", s, why))
		}
	}
	const noRoom = "%d (by the kernel: the buffer was full)"
	if r.KernelDropped > 0 {
		peers = append(peers, fmt.Sprintf(noRoom, r.KernelDropped))
	}
	if r.KernelDroppedStrangers > 0 {
		strangers = append(strangers, fmt.Sprintf(noRoom, r.KernelDroppedStrangers))
	}
	if len(peers) > 0 {
		notes = append(notes, "dropped datagrams of peers: "+strings.Join(peers, ", "))
	}
	if len(strangers) > 0 {
		notes = append(notes, "dropped datagrams of strangers: "+strings.Join(strangers, ", "))
	}
	if r.KernelUnfit > 0 {
		notes = append(notes, fmt.Sprintf("dropped by the kernel's filter: %d datagrams that are no packets, are of connections that nothing here has, or come from addresses that are not allowed", r.KernelUnfit))
	}
	return append(notes, c.neighbourNotes()...)
}

const (
	// floodRate is from how many dropped datagrams in a second on the log speaks of a flood.
	// Mistakes and losses are far less.
	floodRate = 1000

	// repeatAfter is how often the log says that a flood goes on.
	repeatAfter = time.Minute
)

// A floodWatch reports floods in the log: when one begins, each minute while it goes on, and
// when it has ended. maintain uses it.
type floodWatch struct {
	at       time.Time // when look was called last
	dropped  uint64    // how many datagrams were dropped until then
	loggedAt time.Time // when the log had the last line; zero: there is no flood
	since    uint64    // how many datagrams were dropped until that line
}

// look is called about once a second with the number of datagrams that were dropped so far. takeSources
// returns from how many strangers' addresses the carrier has dropped datagrams since the last call.
func (w *floodWatch) look(c *Carrier, now time.Time, dropped uint64, takeSources func() int) {
	d := now.Sub(w.at).Seconds()
	if w.at.IsZero() || d <= 0 {
		w.at, w.dropped = now, dropped
		return
	}
	rate := float64(dropped-w.dropped) / d
	w.at, w.dropped = now, dropped
	addresses := takeSources()
	switch {
	case rate < floodRate && w.loggedAt.IsZero():
	case rate < floodRate:
		c.log.Info("the flood at the RoCE port has ended", "dropped since the last line", dropped-w.since)
		w.loggedAt = time.Time{}
	case w.loggedAt.IsZero() || now.Sub(w.loggedAt) >= repeatAfter:
		c.log.Warn("a flood at the RoCE port: datagrams that nobody here wants are dropped; peers are served before strangers (nicless links has the counts)",
			"dropped a second", int(rate), "addresses of strangers, about", addresses, "goes on", !w.loggedAt.IsZero())
		w.loggedAt, w.since = now, dropped
	}
}

// droppedSoFar returns how many datagrams were dropped, by the carrier and by the kernel.
func (c *Carrier) droppedSoFar() (n uint64) {
	c.countDropped()
	for i := range c.receiver.counts.dropped {
		n += c.receiver.counts.dropped[i].Load()
	}
	for i := range c.receiver.counts.kernel {
		n += c.receiver.counts.kernel[i].Load()
	}
	return n
}
