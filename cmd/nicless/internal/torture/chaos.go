package torture

import (
	"errors"
	"math/rand/v2"
	"os"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/internal/control"
)

// Chaos is a way to be a bad client.
type Chaos uint8

// Ways to be a bad client.
const (
	Scribbler Chaos = iota // writes random bytes over its rings, records, registers and CQs
	Garbler                // sends requests that make no sense, and wrong descriptors
	Mute                   // connects and says nothing
	Halver                 // sends parts of messages
	Crowd                  // connects, begins something, and is gone again
	Hog                    // asks for more than its share: long transfers, queues that overrun
	Thief                  // names the queues and keys of others
	Puncher                // takes pages of its memory away while the engine uses it
	Hoarder                // has descriptors sent to it, and never reads
	Impostor               // takes numbers that others name as their peers
	Lingerer               // sends descriptors that do not close
	Chatterer              // comes and goes, to fill the log
	chaosKinds
)

// String returns the name, for progress and faults.
func (c Chaos) String() string {
	return [chaosKinds]string{"scribbler", "garbler", "mute", "halver", "crowd", "hog", "thief",
		"puncher", "hoarder", "impostor", "lingerer", "chatterer"}[c]
}

// stranger reports whether a client of this kind uses up what one user may have. It is
// of another user than correct clients where that is possible.
func (c Chaos) stranger() bool { return c >= Puncher }

// A villain is a chaos client.
type villain struct {
	w       *wire
	spec    Spec
	r       *rand.Rand
	count   Count
	counted time.Time
	orphans chan []Orphan // newer ones than those of spec; of length 1
}

func newVillain(w *wire, spec Spec) *villain {
	return &villain{w: w, spec: spec, orphans: make(chan []Orphan, 1), r: rand.New(rand.NewPCG(spec.Seed, 0x6368616f73))}
}

// runChaos does wrong until it is killed. Only an engine that does not answer
// is a fault.
func runChaos(w *wire, spec Spec) error {
	v := newVillain(w, spec)
	if err := become(spec.User); err != nil {
		return err
	}
	go func() {
		for o := range w.Orders {
			if o.Do == doOrphans {
				select {
				case <-v.orphans:
				default:
				}
				v.orphans <- o.Orphans
			}
		}
		os.Exit(1) // and no supervisor
	}()
	live := [chaosKinds]func() error{v.scribble, v.garble, v.mute, v.halve, v.crowd, v.hog, v.scribble,
		v.punch, v.hoard, v.impersonate, v.linger, v.chatter}[spec.Chaos]
	for {
		v.count.Lives++
		err := live()
		switch wrong := (*corruption)(nil); {
		case errors.As(err, &wrong):
			return err
		case isTimeout(err):
			return corrupt("the engine does not answer a %v: %v", spec.Chaos, err)
		}
		v.tell(0)
		v.pause(3 * time.Millisecond)
	}
}

func isTimeout(err error) bool {
	var e interface{ Timeout() bool }
	return errors.As(err, &e) && e.Timeout()
}

// tell counts wrongs, and reports them now and then.
func (v *villain) tell(wrongs int) {
	v.count.Mischief += uint64(wrongs)
	if t := time.Now(); t.Sub(v.counted) > countTime {
		v.counted = t
		count := v.count
		v.w.say(Report{Is: isCount, Count: &count})
	}
}

func (v *villain) pause(most time.Duration) { time.Sleep(time.Duration(v.r.Int64N(int64(most)))) }

// fill fills b with random bytes; often with few different ones, since much
// that is all zeros or all ones means something.
func (v *villain) fill(b []byte) {
	mask, base := byte(0xff), byte(0)
	switch v.r.IntN(4) {
	case 0:
		mask = 0
	case 1:
		mask, base = 0, 0xff
	case 2:
		mask = byte(v.r.Uint32())
	}
	for i := range b {
		b[i] = byte(v.r.Uint32())&mask | base
	}
}

// mute is connected and says nothing, at first or after its hello.
func (v *villain) mute() error {
	c, err := dialRaw(v.spec.Socket)
	if err != nil {
		return err
	}
	defer c.close()
	if v.r.IntN(2) == 0 {
		if err := c.hello(); err != nil {
			return err
		}
	}
	v.tell(1)
	if v.r.IntN(2) == 0 { // sometimes only for a while
		v.pause(100 * time.Millisecond)
		return nil
	}
	_ = c.conn.SetDeadline(time.Time{})
	_, _ = c.conn.Read(c.in[:])
	return nil
}

// halve sends parts of messages, or many without reading the answers.
func (v *villain) halve() error {
	c, err := dialRaw(v.spec.Socket)
	if err != nil {
		return err
	}
	defer c.close()
	whole := control.Append(nil, control.OpHello, 0, 1, &control.Hello{Magic: control.Magic, Major: control.Major, Name: "half"})
	if v.r.IntN(2) == 0 {
		if err := c.hello(); err != nil {
			return err
		}
		whole = control.Append(nil, control.OpAllocPD, 0, 1, &control.Empty{})
		// Answers that nobody reads fill the socket, and must hold up nobody else.
		_ = c.conn.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
		for range v.r.IntN(3000) {
			if _, err := c.conn.Write(whole); err != nil {
				break
			}
			v.tell(1)
		}
	}
	_ = c.conn.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
	for range 1 + v.r.IntN(4) {
		if _, err := c.conn.Write(whole[:v.r.IntN(len(whole))]); err != nil {
			break // the engine hangs up, as it should
		}
		v.tell(1)
	}
	v.pause(20 * time.Millisecond)
	return nil
}

// crowd is many clients that begin something and are gone.
func (v *villain) crowd() error {
	ctx, err := nicless.Dial(v.spec.Socket)
	if err != nil {
		return err
	}
	defer ctx.Close()
	v.tell(1)
	steps := v.r.IntN(6)
	if steps == 0 {
		return nil
	}
	pd, err := ctx.AllocPD()
	if err != nil || steps == 1 {
		return err
	}
	mr, err := pd.RegisterMemory(1+v.r.IntN(1<<18), nicless.FullAccess)
	if err != nil || steps == 2 {
		return err
	}
	cq, err := ctx.CreateCQ(nicless.CQConfig{PollOnly: v.r.IntN(2) == 0})
	if err != nil || steps == 3 {
		return err
	}
	a, err := pd.CreateQP(nicless.QPConfig{SendCQ: cq})
	if err != nil || steps == 4 {
		return err
	}
	b, err := pd.CreateQP(nicless.QPConfig{SendCQ: cq})
	if err != nil {
		return err
	}
	if err := nicless.Pair(a, b, nicless.Connection{}); err != nil {
		return err
	}
	for range v.r.IntN(100) { // left behind in all stages
		n := v.r.IntN(mr.Len()) + 1
		if a.PostSend(&nicless.SendWR{Op: nicless.Write, SGE: []nicless.SGE{mr.SGE(0, n)}, RemoteAddr: mr.Addr(), RKey: mr.RKey()}) != nil {
			break
		}
	}
	return nil
}

// hog moves long messages to itself without end, and lets a queue overrun.
func (v *villain) hog() error {
	ctx, err := nicless.Dial(v.spec.Socket)
	if err != nil {
		return err
	}
	defer ctx.Close()
	pd, err := ctx.AllocPD()
	if err != nil {
		return err
	}
	const size = 32 << 20
	mr, err := pd.RegisterMemory(2*size, nicless.FullAccess)
	if err != nil {
		return err
	}
	cq, err := ctx.CreateCQ(nicless.CQConfig{Entries: 16})
	if err != nil {
		return err
	}
	a, err := pd.CreateQP(nicless.QPConfig{SendCQ: cq, SignalAll: true})
	if err != nil {
		return err
	}
	b, err := pd.CreateQP(nicless.QPConfig{SendCQ: cq})
	if err != nil {
		return err
	}
	if err := nicless.Pair(a, b, nicless.Connection{}); err != nil {
		return err
	}
	var list [16]nicless.Completion
	for range 4 {
		for range 2 {
			if err := a.PostSend(&nicless.SendWR{Op: nicless.Write, SGE: []nicless.SGE{mr.SGE(0, size)}, RemoteAddr: mr.Addr() + size, RKey: mr.RKey()}); err != nil {
				return err
			}
		}
		for got := 0; got < 2; {
			n, err := waitFor(cq, list[:])
			if err != nil {
				return err
			}
			got += n
		}
		v.tell(1)
		v.pause(20 * time.Millisecond)
	}
	// More completions than entries, which nobody polls.
	for range 64 {
		_ = a.PostSend(&nicless.SendWR{Op: nicless.Nop})
	}
	v.tell(1)
	v.pause(10 * time.Millisecond)
	return nil
}
