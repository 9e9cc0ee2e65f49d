package naive

import (
	"fmt"

	"github.com/nicless/nicless/accel/ptx/internal/syntax"
)

// resume lets lanes go on that wait for each other, and reports whether there were any. All lanes that have
// not ended have to take part in each operation.
func (b *block) resume() bool {
	resumed := false
	for first := 0; first < len(b.lanes); first += 32 {
		var warp []*lane
		for _, n := range b.lanes[first:min(first+32, len(b.lanes))] {
			if !n.done {
				warp = append(warp, n)
			}
		}
		if len(warp) > 0 && !warp[0].barred && same(warp) {
			together(warp)
			resumed = true
		}
	}
	if resumed {
		return true
	}
	for _, n := range b.lanes {
		if !n.done && !n.barred {
			return false
		}
	}
	for _, n := range b.lanes {
		n.waits, n.barred = nil, false
	}
	return true
}

// same reports whether lanes wait at the same instruction.
func same(warp []*lane) bool {
	for _, n := range warp {
		if n.waits != warp[0].waits {
			return false
		}
	}
	return true
}

// together executes an operation of a warp.
func together(warp []*lane) {
	i := warp[0].waits
	var values, seconds [32]uint64
	var yes, there uint64
	for _, n := range warp {
		c := n.stack[len(n.stack)-1]
		l := n.tid % 32
		there |= 1 << l
		switch i.Op.Base {
		case "vote":
			if c.preds[i.Operands[1].Name] != i.Operands[1].Negated {
				yes |= 1 << l
			}
		case "shfl":
			values[l], _ = n.value(c, i.Operands[1])
			seconds[l], _ = n.value(c, i.Operands[2])
		case "redux":
			values[l], _ = n.value(c, i.Operands[1])
		}
	}
	sum := uint64(0)
	for _, v := range values {
		sum += v
	}
	for _, n := range warp {
		c := n.stack[len(n.stack)-1]
		l := n.tid % 32
		to := i.Operands[0]
		switch i.Op.Text {
		case "vote.sync.ballot.b32":
			c.set(to, yes)
		case "vote.sync.any.pred":
			c.preds[to.Name] = yes != 0
		case "vote.sync.all.pred":
			c.preds[to.Name] = yes == there
		case "redux.sync.add.u32":
			c.set(to, sum)
		default:
			from := map[string]int{
				"shfl.sync.idx.b32": int(seconds[l] & 31), "shfl.sync.bfly.b32": l ^ int(seconds[l]&31),
				"shfl.sync.up.b32": l - int(seconds[l]&31), "shfl.sync.down.b32": l + int(seconds[l]&31),
			}
			k, ok := from[i.Op.Text]
			if !ok {
				panic(fmt.Sprintf("%v: %s is not known", i.At, i.Op.Text))
			}
			in := k >= 0 && k < 32
			if !in {
				k = l
			}
			p := syntax.Operand{}
			if to.Kind == syntax.Pair {
				to, p = to.List[0], to.List[1]
			}
			c.set(to, values[k])
			if p.Name != "" {
				c.preds[p.Name] = in
			}
		}
		n.waits = nil
	}
}
