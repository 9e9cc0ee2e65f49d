//go:build linux && (amd64 || arm64)

// Package plan has what a device is to do at given times, between its steps.
//
// Only the first thread of a device looks at the plan, in few of its steps and before it sleeps. Entries are
// rare: rules of faults about ports make them.
package plan

import (
	"cmp"
	"slices"
)

// A Plan is a list of functions. The zero value is empty. It is used by the device's thread, and changes only
// between steps.
type Plan struct {
	Next uint64 // device clock at which the first function is due; 0: there is none
	list []entry
}

type entry struct {
	at    uint64
	owner any
	do    func()
}

// Add adds a function that is due at a time. Functions of the same time are done in the order in which they
// were added. owner is for Drop; it can be compared.
func (p *Plan) Add(at uint64, owner any, do func()) {
	at = max(at, 1)
	later := func(e entry, at uint64) int { return cmp.Compare(e.at, at) }
	i, _ := slices.BinarySearchFunc(p.list, at+1, later)
	p.list = slices.Insert(p.list, i, entry{at, owner, do})
	p.Next = p.list[0].at
}

// Take takes the first function out of the plan if it is due, and returns it; otherwise nil.
func (p *Plan) Take(now uint64) (do func()) {
	if p.Next == 0 || now < p.Next {
		return nil
	}
	do = p.list[0].do
	p.list = slices.Delete(p.list, 0, 1)
	p.first()
	return do
}

// Drop takes the functions of an owner out of the plan.
func (p *Plan) Drop(owner any) {
	p.list = slices.DeleteFunc(p.list, func(e entry) bool { return e.owner == owner })
	p.first()
}

// first sets Next.
func (p *Plan) first() {
	p.Next = 0
	if len(p.list) > 0 {
		p.Next = p.list[0].at
	}
}
