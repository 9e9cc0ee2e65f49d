package fault

import (
	"math/bits"
	"slices"
	"time"

	"github.com/nicless/nicless/wqe"
)

// A Counter counts the events of one source, and says which rule acts. It is not safe for concurrent use.
type Counter struct {
	set    *Set
	number uint64
	rules  []counted
}

// A counted is a rule, and what has happened to it at one source.
type counted struct {
	rule  *Rule
	place int    // in the rules of the set
	fits  uint64 // events that fit
	acted uint64 // events on which the rule has acted
}

// Facts are what rules ask of an event. Fields that it does not have are zero.
type Facts struct {
	Since  time.Duration // since the rules were set
	Opcode wqe.Opcode
	Size   uint64
	Index  uint16
	Keys   []uint32
	Call   string // name of a request
}

// A Hit is a rule that acts on an event.
type Hit struct {
	Rule  *Rule
	Place int    // of the rule in its set, from 0
	Draw  uint64 // 64 random bits for what the rule leaves open
}

// Next counts an event, and returns the rule that acts on it. If several could, the first acts; the event
// fits the others, too, and they have not acted. taken says that a rule of another set acts on the event:
// then none of this set does.
func (c *Counter) Next(f *Facts, taken bool) (hit Hit, ok bool) {
	for i := range c.rules {
		k := &c.rules[i]
		m := &k.rule.Match
		if !m.fitsFacts(f) || !k.rule.fitsAction(f) {
			continue
		}
		k.fits++
		switch {
		case m.Nth != 0 && k.fits != m.Nth,
			m.Every != 0 && k.fits%m.Every != 0,
			m.Times != 0 && k.acted == m.Times,
			taken || ok:
			continue
		}
		draw := c.draw(k)
		if m.Probability != 0 && float64(draw>>11)/(1<<53) >= m.Probability {
			continue
		}
		k.acted++
		c.set.acted[k.place].Add(1)
		hit, ok = Hit{k.rule, k.place, mix(draw)}, true
	}
	return hit, ok
}

// First returns the first rule of c: for events that are not counted, OnTime and OnQueue.
func (c *Counter) First() Hit {
	k := &c.rules[0]
	return Hit{k.rule, k.place, c.draw(k)}
}

// fitsFacts reports whether the fields of a match that are not fixed fit an event.
func (m *Match) fitsFacts(f *Facts) bool {
	return m.Opcode.Has(f.Opcode) && m.Size.Has(f.Size) &&
		(m.Index == nil || *m.Index == f.Index) &&
		(m.Key == 0 || slices.Contains(f.Keys, uint32(m.Key))) &&
		f.Since >= time.Duration(m.After) && (m.Until == 0 || f.Since < time.Duration(m.Until))
}

// fitsAction reports whether an event is one that the action of a rule is for.
func (r *Rule) fitsAction(f *Facts) bool {
	switch {
	case r.Refuse != nil:
		return r.Refuse.Call == f.Call
	case r.MTU != 0:
		return f.Size > uint64(r.MTU)
	}
	return true
}

// draw returns 64 random bits, which depend on the seed, the rule, the source and the number of the event.
func (c *Counter) draw(k *counted) uint64 {
	x := mix(uint64(c.set.rules.Seed) + 0x9e3779b97f4a7c15)
	for _, v := range [...]uint64{uint64(k.place), c.number, k.fits} {
		x = mix(x ^ bits.RotateLeft64(v+1, 32))
	}
	return x
}

// mix is the output function of splitmix64 (Steele, Lea, Flood, 2014): a bijection that spreads each bit over
// all bits.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
