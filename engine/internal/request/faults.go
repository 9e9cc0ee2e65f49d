//go:build linux && (amd64 || arm64)

package request

import (
	"cmp"
	"maps"
	"slices"

	"github.com/nicless/nicless/engine/internal/inject"
	"github.com/nicless/nicless/engine/internal/loop"
	"github.com/nicless/nicless/engine/internal/mailbox"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/internal/board"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/wqe"
)

// SetFaults makes the device obey rules. owner has set them, and they are only for clients that owner may
// watch, and for owner itself; nil: the configuration has set them, and they are for all clients. Queue pairs
// that exist are added in the order in which they were made, between steps, so that no step waits for
// thousands of them.
func (e Device) SetFaults(set *fault.Set, owner *object.Client) *loop.Faults {
	r, _ := e.replaceFaults(nil, set, owner, func() error { return nil })
	return r
}

// replaceFaults is SetFaults in place of other rules, nil: none. Each queue pair obeys either the old rules
// or the new ones. may is asked in the same step in which the rules become those of the device, so that no
// others come between; if it returns an error, nothing changes.
func (e Device) replaceFaults(old *loop.Faults, set *fault.Set, owner *object.Client,
	may func() error) (_ *loop.Faults, err error) {
	r := &loop.Faults{Rules: &inject.Rules{Set: set, MayFault: mayFault(e, owner)}, Owner: owner}
	var queues []*object.QP
	e.DoWith(mailbox.NoWork, func() {
		if err = may(); err != nil {
			return
		}
		e.Obey = func(c inject.Command) { obey(e, c) }
		r.Since = e.Loops[0].Hooks.Hold(clock.Now())
		setFaultList(e, append(without(e.Faults, old), r))
		queues = slices.Collect(maps.Values(e.QPs))
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(queues, func(a, b *object.QP) int { return cmp.Compare(a.Serial, b.Serial) })
	inPortions(e, queues, func(q *object.QP) {
		if old != nil {
			q.Faults = inject.Remove(q.Faults, old.Rules)
			q.SetAside()
		}
		if !q.Dead {
			e.faultQueue(q, []*loop.Faults{r})
		}
	})
	if old != nil {
		e.EndFaults(old)
	}
	ports{e}.plan(r)
	return r, nil
}

// EndFaults ends rules.
func (e Device) EndFaults(r *loop.Faults) {
	var queues []*object.QP
	e.Do(func() {
		setFaultList(e, without(e.Faults, r))
		ports{e}.end(r)
		queues = slices.Collect(maps.Values(e.QPs))
	})
	inPortions(e, queues, func(q *object.QP) {
		q.Faults = inject.Remove(q.Faults, r.Rules)
		q.SetAside()
	})
	e.DoWith(mailbox.MakesWork, func() {}) // queues that waited as a rule had said go on
}

// without returns a copy of a list without one of its elements.
func without(list []*loop.Faults, r *loop.Faults) []*loop.Faults {
	return slices.DeleteFunc(slices.Clone(list), func(f *loop.Faults) bool { return f == r })
}

// faultQueue adds to a queue pair those rules of a list that are for it.
func (e Device) faultQueue(q *object.QP, list []*loop.Faults) {
	for _, r := range list {
		if r.Owner == nil || r.Owner == q.Client || maySee(r.Owner, q.Client) {
			q.Faults = inject.Add(q.Faults, r.Rules, sourceOf(q))
			q.SetAside()
		}
	}
}

// mayFault returns whether the rules of owner may harm clients of a user.
func mayFault(e Device, owner *object.Client) func(uid uint32) bool {
	if owner == nil || seesAll(owner) {
		return func(uint32) bool { return true }
	}
	hasUser := e.Bulletin.Users.Of(owner.UID) != board.AllUsers
	return func(uid uint32) bool { return hasUser && uid == owner.UID }
}

// sourceOf returns what rules match of a queue pair.
func sourceOf(q *object.QP) *fault.Source {
	s := sourceOfClient(q.Client)
	s.QP, s.Transport = q.Num, fault.On(wqe.Transport(q.Transport))
	return s
}

// sourceOfClient returns what rules match of a client.
func sourceOfClient(c *object.Client) *fault.Source {
	return &fault.Source{Program: c.Program, PID: c.Hosted.PID, Client: c.Number,
		Device: nic.Names(c.Device.Settings.Names).Of(c.Hosted.Port)}
}
