package verdict

import (
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nicless/nicless/internal/schedstat"
)

const (
	// lookTime is the time between two readings. So what explains a wait may include delays from up
	// to lookTime before it.
	lookTime = 20 * time.Millisecond
	// sampleAfter is how old a wait is when its threads are first sampled. Time in the kernel before that is
	// not seen, and less than the bound of a stall.
	sampleAfter = 30 * time.Millisecond
	// sampleTime is the time between two samples.
	sampleTime = 5 * time.Millisecond
)

// A Witness measures what the threads of an engine and of a client have during waits. It is for one
// goroutine.
type Witness struct {
	engines func() []int // process ids of the engines that an answer may need
	clients func() []int
	peers   func() []int // of the client, which it may wait for; nil: none
	turns   int          // how many threads of each engine an answer may need, one after another

	last    *reading
	blocked *blockage
	waiting atomic.Int64 // since when there is a wait, in time of Now; 0: there is none
	stop    chan struct{}
	ended   chan struct{}
}

// NewWitness returns a Witness of this process and its engines. An answer may need as many threads of an
// engine, one after another, as turns says.
func NewWitness(turns int, engines func() []int) *Witness {
	own := []int{os.Getpid()}
	return NewWitnessOf(turns, engines, func() []int { return own })
}

// NewWitnessOf returns a Witness of other processes.
func NewWitnessOf(turns int, engines, clients func() []int) *Witness {
	w := &Witness{engines: engines, clients: clients, turns: turns, blocked: newBlockage(),
		stop: make(chan struct{}), ended: make(chan struct{})}
	go w.sample()
	return w
}

// WithPeers adds processes for which the client may wait. Their times are used only to decide a deadline.
func (w *Witness) WithPeers(peers func() []int) *Witness {
	w.peers = peers
	return w
}

// Close ends the sampling.
func (w *Witness) Close() {
	close(w.stop)
	<-w.ended
}

// Quiet calls f while no file is open that the sampling reads, so that f can count those of this process.
func (w *Witness) Quiet(f func()) {
	w.blocked.files.Lock()
	defer w.blocked.files.Unlock()
	f()
}

// sample samples threads while there is a wait that is not short.
func (w *Witness) sample() {
	defer close(w.ended)
	for tick := time.NewTicker(sampleTime); ; {
		select {
		case <-tick.C:
		case <-w.stop:
			tick.Stop()
			return
		}
		if since := time.Duration(w.waiting.Load()); since != 0 && Now()-since > sampleAfter {
			w.blocked.look(slices.Concat(w.engines(), w.clients()))
		}
	}
}

// A reading is everything at one moment.
type reading struct {
	at        time.Duration
	suspended time.Duration
	steal     time.Duration
	engines   []int
	threads   map[int]schedstat.Threads // the threads of each process
	blocked   map[int]time.Duration     // time for which each thread was blocked
}

func (w *Witness) read() *reading {
	r := &reading{suspended: Suspended(), steal: schedstat.Steal(), engines: w.engines(),
		threads: make(map[int]schedstat.Threads), blocked: w.blocked.sums()}
	pids := slices.Concat(r.engines, w.clients())
	if w.peers != nil {
		pids = append(pids, w.peers()...)
	}
	for _, pid := range pids {
		if t, err := schedstat.Read(pid); err == nil {
			r.threads[pid] = t
		}
	}
	r.at = Now()
	w.last = r
	return r
}

// A Mark is the beginning of a wait.
type Mark struct {
	At     time.Duration
	before *reading
}

// Begin begins a wait.
func (w *Witness) Begin() Mark {
	if w.last == nil || Now()-w.last.at >= lookTime {
		w.read()
	}
	now := Now()
	w.waiting.Store(int64(now))
	return Mark{now, w.last}
}

// Rest ends the wait: the client waits for nothing.
func (w *Witness) Rest() { w.waiting.Store(0) }

// Since returns the evidence of a wait for the engines until now.
func (w *Witness) Since(m Mark) Evidence {
	e := w.Between(m, w.engines(), w.clients())
	// otherwise another engine serves by now
	e.Known = e.Known && slices.Equal(m.before.engines, w.last.engines)
	return e
}

// Alone returns the evidence of a wait until now for which the engines are not needed, because they have
// ended.
func (w *Witness) Alone(m Mark) Evidence { return w.Between(m, nil, w.clients()) }

// Between returns the evidence of a wait until now for some engines and some clients. The times of a process
// that has started since the wait began count from its start.
func (w *Witness) Between(m Mark, engines, clients []int) Evidence {
	e := Evidence{Begin: m.At, Took: Now() - m.At}
	if m.before == nil { // the zero Mark: nothing was waited for
		return e
	}
	before, now := m.before, w.read()
	e.Steal, e.Suspended = now.steal-before.steal, now.suspended-before.suspended
	e.Known = true
	sum := func(pids []int, turns int) (t Times) {
		for _, pid := range pids {
			threads, still := now.threads[pid]
			if !still {
				e.Known = false
				continue
			}
			d := threads.Since(before.threads[pid])
			t.Ran += d.Sum().Ran
			t.Waited += d.Longest(turns)
			var blocked []time.Duration
			for tid := range d {
				blocked = append(blocked, now.blocked[tid]-before.blocked[tid])
			}
			slices.Sort(blocked)
			for _, b := range blocked[max(0, len(blocked)-turns):] {
				t.Blocked += b
			}
		}
		if t.Blocked > 0 {
			t.In = w.blocked.since(m.At)
		}
		return t
	}
	e.Engine = sum(engines, w.turns)
	e.Client = sum(clients, 1)
	if w.peers != nil {
		e.Peer = sum(w.peers(), 1)
	}
	return e
}
