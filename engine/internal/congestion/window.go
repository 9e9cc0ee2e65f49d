//go:build linux && (amd64 || arm64)

package congestion

// A Window is how many packets a queue pair may have on the way. It is made by its first round.
type Window struct {
	size uint32
	step uint32 // what the window may be beyond the pipe
	calm uint32 // rounds since the network was overloaded, up to enough
	gave uint32 // what End has returned last

	began bool // the network was overloaded once: by what the window was at first
	after bool // it was in the last round
}

// A Round is what a round trip has brought.
type Round struct {
	Had  uint32 // packets that the peer is known to have got in the round
	Lost uint32 // packets that are known to be lost since the round began
	Took uint64 // cycles
	Now  uint64 // when it has ended
}

const (
	// Least is the smallest window: as many packets as ask for an acknowledgement once, so that the sender
	// hears in each round trip how it goes.
	Least = 16

	// slack is how many packets more than the pipe are on the way, besides a part of the window: a sender
	// hears only of each 16th packet, or of each eighth that has come early.
	slack = 32

	// After the network was overloaded, the step is careful. Except after the first time, which finds what
	// the network can carry, it is then at most even until enough calm rounds have passed: the same for all
	// senders, whatever their windows are, so those become equal.
	careful = 4
	even    = 24
	enough  = 24

	// bearable and chance say when the network is overloaded: if more than one packet of bearable is lost in
	// a round, and more than chance. The first is twice the 3 of 100 that cost nothing on short paths; BBR
	// has 2 of 100. The second keeps a small window from taking chance for more.
	bearable = 16
	chance   = 6
)

// End is called at the end of a round, with the window until now and the largest that is possible. It returns
// the window, and adds the time to t.
func (w *Window) End(r Round, t *Trip, size, most uint32) uint32 {
	t.Add(r.Took, r.Now)
	switch {
	case w.step == 0: // the first round
		w.size, w.step, w.calm = size, most, enough
	case size < w.gave: // others have made it smaller, for a CNP or for memory
		w.size, w.step, w.calm = max(size, Least), careful, 0
	}
	w.size = min(w.size, most)
	total := r.Had + r.Lost
	overloaded := r.Lost > chance && r.Lost > total/bearable
	switch {
	case t.Empties():
		// Windows are small to measure the time.
	case overloaded && !w.after:
		kept := uint32(uint64(w.size) * uint64(r.Had) / uint64(total))
		w.size, w.step, w.after = max(kept-kept/8, Least), careful, true
		if w.began {
			w.calm = 0
		}
		w.began = true
	case overloaded:
		w.after = false // these packets were sent before the window became smaller
	case total < w.size/8*5:
		// The sender had nothing to send, so the round says nothing of the network.
		w.after = false
	default:
		w.after = false
		w.grow()
		pipe := uint64(total) * t.Least() / max(r.Took, 1)
		next := uint32(min(pipe, uint64(most))) + w.step
		if next < w.size {
			next += (w.size - next) / 2 // a time that was measured once
		}
		w.size = max(min(next, most), Least)
	}
	w.gave = w.size
	if t.Empties() {
		w.gave = max(w.size/2, Least)
	}
	return w.gave
}

// grow makes the step larger.
func (w *Window) grow() {
	most := w.size/4 + slack
	if w.calm < enough {
		w.calm++
		most = even
	}
	w.step = min(w.step+w.step/2, most)
}
