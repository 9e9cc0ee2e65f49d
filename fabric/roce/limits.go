//go:build linux && (amd64 || arm64)

package roce

import (
	"hash/maphash"
	"math"
	"math/bits"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/nicless/nicless/internal/budget"
)

// Budgets of strangers.
var (
	// wasteRate is how many datagrams of strangers may turn out to be useless. The check of
	// one takes about a microsecond, with its part of the system call: so this is about two hundredths of
	// a processor. Strangers whose datagrams are good are not slowed down.
	wasteRate = budget.Rate{PerSecond: 20_000, Burst: 2_000}

	// Management datagrams for queue pair 1, of each address and of all strangers together. A
	// connection takes three, and the connection manager has a budget of its own for requests. A
	// thousand hosts that start at once send one or two each; what is lost they send again.
	managementEach = budget.Rate{PerSecond: 2_000, Burst: 2_000}
	managementAll  = budget.Rate{PerSecond: 8_000, Burst: 8_000}
)

// restTime is how long strangers are not served after they have wasted what they may.
const restTime = time.Millisecond

// limits bound what strangers cost the receiver, which owns them.
type limits struct {
	waste      budget.Bucket
	management *budget.Sources

	resting bool
	until   time.Time

	useless int // datagrams of strangers that were dropped and are not charged yet
	crowd   crowd
}

func newLimits() limits {
	return limits{
		waste:      budget.NewBucket(wasteRate),
		management: budget.NewSources(managementEach, managementAll),
		crowd:      crowd{seed: maphash.MakeSeed()},
	}
}

// wasted notes that a stranger's datagram was dropped.
func (m *limits) wasted(from netip.Addr) {
	m.useless++
	m.crowd.add(from)
}

// takeStrangersTurn begins a turn of strangers if they may have one, and reports whether it did. Otherwise
// their sockets do not wake the receiver, and the kernel drops what does not fit into the buffer.
func (r *receiver) takeStrangersTurn() bool {
	m := &r.limits
	if m.useless == 0 && !m.resting {
		return true
	}
	now := time.Now()
	if m.resting {
		if now.Before(m.until) {
			return false
		}
		m.resting = false
		r.c.rest(false, 0)
	}
	n := float64(m.useless)
	m.useless = 0
	if m.waste.Take(now, min(n, wasteRate.Burst)) {
		return true
	}
	wait := max(restTime, m.waste.Wait(now, min(n, wasteRate.Burst)))
	m.resting, m.until = true, now.Add(wait)
	m.useless = int(n) // still to be paid
	r.counts.rests.Add(1)
	r.c.rest(true, wait)
	return false
}

// rest ends or begins that strangers' sockets wake the receiver. A rest of a time ends by a timer.
func (c *Carrier) rest(begin bool, d time.Duration) {
	for _, l := range *c.locals.Load() {
		l.use.RLock()
		if !l.closed && l.group.strangers >= 0 {
			c.receiveWaiter.mute(l.group.strangers, l.number|strangersBit, begin)
		}
		l.use.RUnlock()
	}
	if begin {
		c.receiveWaiter.wakeAfter(d)
	}
}

// takeBudget takes from the budget for what costs more than checks, and reports whether it had enough:
// packets to queue pair 1, which a goroutine of the engine takes. It is checked before the ICRC.
func (r *receiver) takeBudget(s *budget.Sources) bool {
	source, now := r.d.remote.As16(), time.Now()
	if r.known() {
		return s.Alone(source, now)
	}
	return s.Take(source, now)
}

// A crowd estimates how many addresses there are in a time, by a bit for each hash.
type crowd struct {
	seed maphash.Seed
	bits [16]atomic.Uint64 // the receiver sets, and maintain takes them
}

func (c *crowd) add(a netip.Addr) {
	b := a.As16()
	h := maphash.Bytes(c.seed, b[:])
	if w, bit := &c.bits[h/64%uint64(len(c.bits))], uint64(1)<<(h%64); w.Load()&bit == 0 {
		w.Or(bit)
	}
}

// take returns about how many addresses were added since the last time, and removes them. It
// counts up to some thousand.
func (c *crowd) take() int {
	size, zero := 64*len(c.bits), 0
	for i := range c.bits {
		zero += 64 - bits.OnesCount64(c.bits[i].Swap(0))
	}
	return int(math.Round(float64(size) * math.Log(float64(size)/float64(max(zero, 1)))))
}
