package engine

import (
	"fmt"
	"maps"
	"slices"

	cost "github.com/nicless/nicless/model"
)

// An extent is a range of addresses.
type extent struct{ Addr, Size uint64 }

func within(list []extent, addr uint64) bool {
	return slices.ContainsFunc(list, func(e extent) bool { return addr-e.Addr < e.Size })
}

// A seen is an access that a tracer has seen.
type seen struct {
	addr  uint64
	write bool
}

// A located is a region of a trace in the memory of the process that is watched. First is the index
// of its first line.
type located struct {
	Region string
	extent
	First int
}

// A touch is an access of the device to lines of a region.
type touch struct {
	Write  bool
	Region string
	Index  int
	N      int
}

func (t touch) String() string {
	op := "load"
	if t.Write {
		op = "store"
	}
	s := fmt.Sprintf("%s %s:%d", op, t.Region, t.Index)
	if t.N > 1 {
		s += fmt.Sprintf(" x%d", t.N)
	}
	return s
}

// expected returns what an agent touches according to these accesses. The key tables are private
// memory of the device, and its searches cannot be seen.
func expected(list []cost.Access, who cost.Agent) (touches []touch) {
	for _, a := range list {
		if a.Who == who && a.Kind != cost.Key {
			touches = append(touches, touch{a.Op != cost.Load, a.Line.Region, a.Line.Index, a.N})
		}
	}
	return touches
}

// locate returns the lines of what a tracer has seen. Atomics read the word that they change, some
// of them by a load before the atomic instruction; these loads are left out.
func locate(regions []located, list []seen) (touches []touch) {
	for _, s := range list {
		t := touch{s.write, fmt.Sprintf("address %#x", s.addr), 0, 1}
		for _, r := range regions {
			if s.addr-r.Addr < r.Size {
				t.Region, t.Index = r.Region, r.First+int((s.addr-r.Addr)/cost.LineSize)
			}
		}
		if t.Region != "word" || t.Write {
			touches = append(touches, t)
		}
	}
	return touches
}

// lines returns the single lines of touches, each at its first load and its first store, and
// for each line the index of the touch that it comes from.
func lines(list []touch) (each []touch, from map[touch]int) {
	from = make(map[touch]int)
	for i, t := range list {
		for k := range t.N {
			one := touch{t.Write, t.Region, t.Index + k, 1}
			if _, ok := from[one]; !ok {
				from[one] = i
				each = append(each, one)
			}
		}
	}
	return each, from
}

// compare returns what is different between the touches that are expected and those that were seen;
// nothing if the same lines are loaded and stored, in the same order of their first loads and
// first stores. The lines of one touch may come in any order, and may mix with those of the next
// touch, as in a copy, which loads and stores in turn.
func compare(want, got []touch) (differences []string) {
	wanted, from := lines(want)
	found, _ := lines(got)
	for _, t := range wanted {
		if !slices.Contains(found, t) {
			differences = append(differences, fmt.Sprintf("%v is expected, but does not happen", t))
		}
	}
	first, last := make(map[int]int), make(map[int]int) // when the lines of a touch were seen
	for at, t := range found {
		i, ok := from[t]
		if !ok {
			differences = append(differences, fmt.Sprintf("%v happens, but is not expected", t))
			continue
		}
		if _, ok := first[i]; !ok {
			first[i] = at
		}
		last[i] = at
	}
	order := slices.Sorted(maps.Keys(first))
	for k, i := range order {
		beginsEarly := k > 0 && first[i] < first[order[k-1]]
		if beginsEarly || (k > 1 && first[i] < last[order[k-2]]) {
			differences = append(differences, fmt.Sprintf("%v happens too early", want[i]))
		}
	}
	return differences
}
