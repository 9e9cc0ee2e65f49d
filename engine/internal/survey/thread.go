//go:build linux && (amd64 || arm64)

package survey

import (
	"fmt"
	"strings"
	"time"

	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/schedstat"
	"github.com/nicless/nicless/state"
)

// thread fills in what is known of a thread, between two steps. The work of other users counts too, but not
// whose it is.
func (s *survey) thread(t *state.Thread, sh *object.Shard) {
	*t = state.Thread{
		Number: sh.Number, Time: now(), Busy: s.r.Loops[sh.Number].Used.Busy(), Asleep: sh.Asleep.Load(),
		Clients: len(sh.Clients), Queues: len(sh.Running), Warm: sh.Sched.Warm, Stalled: sh.Stalled,
	}
}

// kernel adds to threads what the kernel counts, and what the watchdog has found.
func (s *survey) kernel(threads []state.Thread) {
	for i := range threads {
		if tid := s.r.Shards[i].Thread.Observe(); tid != 0 {
			if use, err := schedstat.Thread(fmt.Sprintf("/proc/self/task/%d", tid)); err == nil {
				threads[i].Ran, threads[i].Waited = nanoseconds(use.Ran), nanoseconds(use.Waited)
			}
		}
	}
	for _, stuck := range s.r.Stuck() {
		threads[0].Stuck = s.describe(&stuck)
	}
}

// longStuck is for how long a thread may be stuck before readers are told so, in place of an answer. It comes
// to no request before it goes on, and the memory of a client can keep it for as long as the client likes.
const longStuck = time.Second

// stuck says where a thread is stuck for long, or returns "".
func (s *survey) stuck() string {
	for _, k := range s.r.Stuck() {
		if !k.NoCore && k.For >= longStuck {
			return s.describe(&k)
		}
	}
	return ""
}

// describe says where a thread is stuck. Names of clients are only for those who may see all of them.
func (s *survey) describe(k *object.Stuck) string {
	var b strings.Builder
	fmt.Fprintf(&b, "for %v: %s", k.For.Round(1e6), k.Thread)
	if !SeesAll(s.uid) {
		return b.String()
	}
	if k.Client != "" {
		fmt.Fprintf(&b, "; client %s", k.Client)
	}
	if k.Request != "" {
		fmt.Fprintf(&b, ", its request %s", k.Request)
	} else if k.Queue != 0 {
		fmt.Fprintf(&b, ", queue %#06x", k.Queue)
	}
	return b.String()
}

// now returns the device clock in nanoseconds.
func now() uint64 { return uint64(clock.Duration(clock.Now())) }
