//go:build linux && (amd64 || arm64)

package torture

import (
	"math/rand/v2"
	"os"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/verdict"
)

// An Attack is what a hostile client does.
type Attack uint8

// Attacks, named after the clients that make them.
const (
	Scribbler  Attack = iota // overwrites its rings, records, registers and CQs at random
	Fuzzer                   // sends requests that make no sense, and wrong descriptors
	Silent                   // connects and says nothing
	Truncator                // sends parts of messages
	Abandoner                // connects, begins something and disconnects
	Hog                      // takes more than its share: long transfers, queues that overrun
	Thief                    // names the queues and keys of other clients
	Puncher                  // removes pages of its memory while the engine uses them
	Hoarder                  // requests descriptors and never reads them
	Impostor                 // gets queue pair numbers that queue pairs of others name as their peers
	Lingerer                 // sends descriptors whose close blocks
	LogFlooder               // connects and disconnects, to fill the log
	CQHoarder                // holds as many CQs with events as it can, and arms them all the time
	attackKinds
)

// String returns the name of the attack's client, for progress and failures.
func (a Attack) String() string {
	return [attackKinds]string{"scribbler", "fuzzer", "silent client", "truncator", "abandoner", "hog",
		"thief",
		"puncher", "hoarder", "impostor", "lingerer", "log flooder", "cq-hoard"}[a]
}

// exhausts reports whether the attack uses up the resources that one user may have. If possible,
// its client runs as a different user than the correct clients.
func (a Attack) exhausts() bool { return a >= Puncher }

// A hostile is a hostile client.
type hostile struct {
	w        *wire
	meter    *waitMeter // nil: a test without a supervisor
	spec     Spec
	r        *rand.Rand
	count    Count
	counted  time.Time
	halfOpen chan []HalfOpenQP // carries a list that replaces spec.HalfOpen; has room for one list
}

func newHostile(w *wire, spec Spec) *hostile {
	return &hostile{w: w, spec: spec, halfOpen: make(chan []HalfOpenQP, 1),
		r: rand.New(rand.NewPCG(spec.Seed, 0x6368616f73))}
}

// runHostile repeats its attack until it is killed. It reports a fault if the engine does not
// answer or if an attack succeeds.
func runHostile(w *wire, spec Spec) error {
	v := newHostile(w, spec)
	var err error
	v.meter, err = newWaitMeter(&spec)
	if err != nil {
		return err
	}
	if err := become(spec.User); err != nil {
		return err
	}
	go func() {
		for o := range w.Orders {
			if o.Do == doHalfOpen {
				select {
				case <-v.halfOpen:
				default:
				}
				v.halfOpen <- o.HalfOpen
			}
		}
		os.Exit(1) // the supervisor is gone
	}()
	attack := [attackKinds]func() error{v.scribble, v.fuzz, v.silent, v.truncate, v.abandon, v.hog,
		v.scribble, v.punch, v.hoard, v.impersonate, v.linger, v.floodLog, v.hoardCQs}[spec.Attack]
	for {
		v.count.HostileConnections++
		v.meter.mark()
		err := attack()
		v.meter.Rest()
		if verdict.Of(err) != nil || verdict.IsTimeout(err) {
			f := v.meter.fault(err)
			if f.Kind != verdict.Undecided {
				return f
			}
			v.w.send(Report{Is: isFault, Fault: f}) // and go on: the machine was too busy
		}
		v.did(0)
		v.pause(3 * time.Millisecond)
	}
}

// did counts n hostile actions, and reports the count at intervals.
func (v *hostile) did(n int) {
	v.count.HostileActions += uint64(n)
	if t := time.Now(); t.Sub(v.counted) > countTime {
		v.counted = t
		count := v.count
		v.w.send(Report{Is: isCount, Count: &count})
	}
}

func (v *hostile) pause(most time.Duration) { time.Sleep(time.Duration(v.r.Int64N(int64(most)))) }

// fill fills b with random bytes. Often it uses few different values, because bytes that are
// all zeros or all ones have a meaning in many places.
func (v *hostile) fill(b []byte) {
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

// silent connects and sends nothing, or nothing after its hello.
func (v *hostile) silent() error {
	c, err := v.dial()
	if err != nil {
		return err
	}
	defer c.close()
	if v.r.IntN(2) == 0 {
		if err := c.hello(); err != nil {
			return err
		}
	}
	v.did(1)
	if v.r.IntN(2) == 0 { // stay connected for a while
		v.pause(100 * time.Millisecond)
		return nil
	}
	_ = c.conn.SetDeadline(time.Time{})
	_, _ = c.conn.Read(c.in[:])
	return nil
}

// truncate sends parts of messages, or many messages without reading the answers.
func (v *hostile) truncate() error {
	c, err := v.dial()
	if err != nil {
		return err
	}
	defer c.close()
	whole := control.Append(nil, control.OpHello, 0, 1,
		&control.Hello{Magic: control.Magic, Major: control.Major, Name: "truncator"})
	if v.r.IntN(2) == 0 {
		if err := c.hello(); err != nil {
			return err
		}
		whole = control.Append(nil, control.OpAllocPD, 0, 1, &control.Empty{})
		// Unread answers fill the socket. That must not delay other clients.
		_ = c.conn.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
		for range v.r.IntN(3000) {
			if _, err := c.conn.Write(whole); err != nil {
				break
			}
			v.did(1)
		}
	}
	_ = c.conn.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
	for range 1 + v.r.IntN(4) {
		if _, err := c.conn.Write(whole[:v.r.IntN(len(whole))]); err != nil {
			break // the engine closes the connection, as it should
		}
		v.did(1)
	}
	v.pause(20 * time.Millisecond)
	return nil
}

// abandon connects, begins something and disconnects.
func (v *hostile) abandon() error {
	ctx, err := nicless.Dial(v.spec.Socket)
	if err != nil {
		return err
	}
	defer ctx.Close()
	v.did(1)
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
	for range v.r.IntN(100) { // these are in flight when the client disconnects
		n := v.r.IntN(mr.Len()) + 1
		if a.PostSend(&nicless.SendWR{Op: nicless.Write, SGE: []nicless.SGE{mr.SGE(0, n)},
			RemoteAddr: mr.Addr(), RKey: mr.RKey()}) != nil {
			break
		}
	}
	return nil
}

// hog moves long messages to itself, then lets a CQ overrun.
func (v *hostile) hog() error {
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
			if err := a.PostSend(&nicless.SendWR{Op: nicless.Write, SGE: []nicless.SGE{mr.SGE(0, size)},
				RemoteAddr: mr.Addr() + size, RKey: mr.RKey()}); err != nil {
				return err
			}
		}
		for got := 0; got < 2; {
			n, err := waitFor(cq, list[:], v.spec.hang())
			if err != nil {
				return err
			}
			got += n
		}
		v.did(1)
		v.pause(20 * time.Millisecond)
	}
	// More completions than the CQ has entries, and no polling.
	for range 64 {
		_ = a.PostSend(&nicless.SendWR{Op: nicless.Nop})
	}
	v.did(1)
	v.pause(10 * time.Millisecond)
	return nil
}
