package code

import "fmt"

// maxSlots is how many values of a lane can live at a time. Those that a GPU's registers have no room for are
// in the lane's local memory, which has 512 KiB.
const maxSlots = 512 << 10 / 8

// allocate gives values that do not live at the same time the same slots, and predicates the same bits: a
// function of 20,000 names needs a few hundred. A value lives from the first place where it is written, or
// may be read without having been written, to the last one where it may be read.
func allocate(f *Function) error {
	slots, predicates := newLiveness(f.Slots), newLiveness(f.Predicates)
	for _, p := range f.Params {
		if p.Slot >= 0 {
			slots.extend(p.Slot, 0)
		}
	}
	flow := newFlow(f)
	flow.note(f, slots, predicates)
	for _, l := range []*liveness{slots, predicates} {
		flow.spread(l, patience*len(f.Insts))
	}
	f.Slots, f.Predicates = slots.share(), predicates.share()
	if f.Slots > maxSlots {
		return &Error{At: f.At, Why: fmt.Sprintf(
			"%d values live at a time; at most %d are possible, as many as local memory has room for", f.Slots, maxSlots)}
	}
	for k := range f.Insts {
		f.Insts[k].visit(visitor{
			slot:      func(s *int32, _ bool) { *s = slots.place[*s] },
			predicate: func(p *int16, _ bool) { *p = int16(predicates.place[*p]) },
		})
	}
	for _, all := range [][]Formal{f.Params, f.Results} {
		for k := range all {
			if all[k].Slot >= 0 {
				all[k].Slot = slots.place[all[k].Slot]
			}
		}
	}
	return nil
}
