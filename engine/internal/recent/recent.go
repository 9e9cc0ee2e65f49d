//go:build linux && (amd64 || arm64)

// Package recent keeps the last explanations that clients were given, for those who look at them later
// (package survey).
package recent

import (
	"fmt"
	"slices"
	"time"

	"github.com/nicless/nicless/state"
)

// A List holds the last explanations of a client. The zero value has none. It is used between the steps of
// the client's shard, or on its thread.
type List struct {
	ring [state.MostErrors]state.Error
	n    int // how many there have been
}

// Add adds an explanation.
func (l *List) Add(code, text string, queue uint32, index uint16) {
	e := state.Error{Time: time.Now(), Code: code, Queue: queue, Index: index, Text: text}
	l.ring[l.n%len(l.ring)] = e
	l.n++
}

// All returns the explanations, the newest first. A nil list has none.
func (l *List) All() (all []state.Error) {
	if l == nil {
		return nil
	}
	for i := l.n - 1; i >= 0 && i >= l.n-len(l.ring); i-- {
		all = append(all, l.ring[i%len(l.ring)])
	}
	return all
}

// mostUsers is of how many users a Past keeps explanations: of those whose clients have failed last.
const mostUsers = 64

// A Past holds the last explanations of clients that are gone, for each user as many as for a client. So
// users displace their own only. It is used between the steps of a device.
type Past struct{ users []past }

type past struct {
	uid    uint32
	errors []state.Error // the newest first
}

// Keep adds the explanations of a client that goes.
func (p *Past) Keep(uid uint32, program string, pid int, l *List) {
	if l == nil {
		return
	}
	mine := past{uid: uid}
	i := slices.IndexFunc(p.users, func(u past) bool { return u.uid == uid })
	if i >= 0 {
		mine = p.users[i]
		p.users = slices.Delete(p.users, i, i+1)
	}
	list := l.All()
	for j := range list {
		list[j].Client = fmt.Sprintf("%s (pid %d)", program, pid)
	}
	mine.errors = append(list, mine.errors...)
	mine.errors = slices.Clone(mine.errors[:min(len(mine.errors), state.MostErrors)])
	p.users = slices.Insert(p.users, 0, mine)
	p.users = p.users[:min(len(p.users), mostUsers)]
}

// All returns the explanations of those users of whom may reports true, the newest of each user first.
func (p *Past) All(may func(uid uint32) bool) (all []state.Error) {
	for _, u := range p.users {
		if may(u.uid) {
			all = append(all, u.errors...)
		}
	}
	return all
}
