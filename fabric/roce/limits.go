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
	// wasteRate is how many datagrams of strangers may turn out to be useless. To check a datagram takes
	// about a microsecond, with its part of the system call. So useless datagrams take about two hundredths
	// of a processor. Strangers whose datagrams are good are not slowed down.
	wasteRate = budget.Rate{PerSecond: 20_000, Burst: 2_000}

	// Management datagrams for queue pair 1, of each address and of all strangers together. A
	// connection takes three, and the connection manager has a budget of its own for requests. A
	// thousand hosts that start at once send one or two each; what is lost they send again.
	managementEach = budget.Rate{PerSecond: 2_000, Burst: 2_000}
	managementAll  = budget.Rate{PerSecond: 8_000, Burst: 8_000}
)

// restTime is the least time for which strangers are not served after they have used up wasteRate.
const restTime = time.Millisecond

// limits bound what strangers cost the receiver. Only the receiver uses them.
type limits struct {
	waste      budget.Bucket   // useless datagrams of strangers
	management *budget.Sources // management datagrams

	resting bool      // strangers are not served until the time until
	until   time.Time // if resting

	useless int              // datagrams of strangers that were dropped and not taken from waste yet
	sources addressEstimator // of these datagrams
}

func newLimits() limits {
	return limits{
		waste:      budget.NewBucket(wasteRate),
		management: budget.NewSources(managementEach, managementAll),
		sources:    addressEstimator{seed: maphash.MakeSeed()},
	}
}

// wasted notes that a stranger's datagram was dropped.
func (m *limits) wasted(from netip.Addr) {
	m.useless++
	m.sources.add(from)
}

// takeStrangersTurn reports whether strangers may be served now. If not, their sockets do not wake the
// receiver, and the kernel drops the datagrams that do not fit into their buffers.
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

// rest begins or ends a rest: the time in which strangers' sockets do not wake the receiver. If a rest
// begins, a timer wakes the receiver after d.
func (c *Carrier) rest(begin bool, d time.Duration) {
	for _, l := range *c.locals.Load() {
		l.use.RLock()
		if !l.closed && l.group.strangers >= 0 {
			c.receiveWaiter.setMuted(l.group.strangers, l.number|strangersBit, begin)
		}
		l.use.RUnlock()
	}
	if begin {
		c.receiveWaiter.wakeAfter(d)
	}
}

// takeBudget takes one from a budget for packets to queue pair 1, and reports whether there was one. A
// goroutine of the engine takes these packets, so they cost more than other packets. The budget is checked
// before the ICRC. For a known address, only the budget of the address counts.
func (r *receiver) takeBudget(s *budget.Sources) bool {
	source, now := r.d.remote.As16(), time.Now()
	if r.known() {
		return s.Alone(source, now)
	}
	return s.Take(source, now)
}

// An addressEstimator estimates how many different addresses were added to it, by linear counting: the hash
// of an address chooses a bit, which is set.
type addressEstimator struct {
	seed maphash.Seed
	bits [16]atomic.Uint64 // the receiver sets bits, maintain clears them
}

func (e *addressEstimator) add(a netip.Addr) {
	b := a.As16()
	hash := maphash.Bytes(e.seed, b[:])
	word, bit := &e.bits[hash/64%uint64(len(e.bits))], uint64(1)<<(hash%64)
	if word.Load()&bit == 0 {
		word.Or(bit)
	}
}

// take returns about how many addresses were added since the last call, up to some thousand.
func (e *addressEstimator) take() int {
	size, zero := 64*len(e.bits), 0
	for i := range e.bits {
		zero += 64 - bits.OnesCount64(e.bits[i].Swap(0))
	}
	return int(math.Round(float64(size) * math.Log(float64(size)/float64(max(zero, 1)))))
}
