package torture

import (
	"math/rand/v2"
	"time"

	"github.com/nicless/nicless/internal/control"
)

// How many connections a hoarder makes: more than it can get, or so few that what they
// ask for is not refused for lack of descriptors. Where it is of the same user as
// correct clients, so few that enough is left for them.
const (
	hoardMost = 600
	hoardMany = 80
	hoardOwn  = 40
)

// hoard makes many connections that ask for all that comes with descriptors, and reads
// nothing: descriptors in flight count against the engine's user. It stays for a while.
// It is right for the engine to refuse.
func (v *villain) hoard() error {
	most := hoardOwn
	if v.spec.User != 0 {
		most = [2]int{hoardMany, hoardMost}[v.r.IntN(2)]
	}
	var all []*raw
	defer func() {
		for _, c := range all {
			c.close()
		}
	}()
	for len(all) < most {
		c, err := dialRaw(v.spec.Socket)
		if err != nil {
			return err
		}
		all = append(all, c)
		v.greedy(c)
		if v.r.IntN(64) == 0 {
			v.pause(10 * time.Millisecond)
		}
	}
	for range 40 {
		v.pause(100 * time.Millisecond)
		for range 8 { // perhaps they take more now
			v.greedy(all[v.r.IntN(len(all))])
		}
	}
	return nil
}

// greedy asks for descriptors on a connection until the engine hangs up or has no room
// for further requests.
func (v *villain) greedy(c *raw) {
	_ = c.conn.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
	for _, m := range wishes(v.r) {
		c.tag++
		if _, err := c.conn.Write(control.Append(nil, m.op, 0, c.tag, m.req)); err != nil {
			return
		}
		v.tell(1)
	}
}

type wish struct {
	op  control.Op
	req control.Message
}

// wishes are requests whose answers bring descriptors; the first of a connection is
// hello. What they make is given back at once: the descriptor is under way all the same,
// and the engine has no other reason to refuse the next.
func wishes(r *rand.Rand) []wish {
	list := []wish{
		{control.OpHello, &control.Hello{Magic: control.Magic, Major: control.Major, Features: control.Features, Name: "hoard"}},
		{control.OpOpenEvents, &control.Empty{}},
		{control.OpWake, &control.Wake{}},
	}
	for id := uint32(1); id < 20; id++ { // they are counted from 1
		if r.IntN(2) == 0 {
			list = append(list, wish{control.OpCreateChannel, &control.Empty{}})
		} else {
			list = append(list, wish{control.OpCreateRegion, &control.RegionSize{Size: 4096 << r.IntN(6)}})
		}
		list = append(list, wish{control.OpDestroyChannel, &control.Channel{ID: id}}, wish{control.OpDropRegion, &control.RegionID{ID: id}})
	}
	return list
}
