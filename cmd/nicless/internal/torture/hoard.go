//go:build linux && (amd64 || arm64)

package torture

import (
	"math/rand/v2"
	"time"

	"github.com/nicless/nicless/internal/control"
)

// How many connections a hoarder makes: more than it can get, or so few that their requests
// are not refused for want of descriptors. A hoarder of the same user as correct clients
// makes so few that enough descriptors are left for these.
const (
	hoardMany = 600
	hoardSome = 80
	hoardFew  = 40
)

// hoard makes many connections that request everything that comes with descriptors, and
// reads no answers: descriptors in flight count against the engine's user. It stays for
// some seconds. The engine may refuse.
func (v *hostile) hoard() error {
	most := hoardFew
	if v.spec.User != 0 {
		most = [2]int{hoardSome, hoardMany}[v.r.IntN(2)]
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
		v.requestDescriptors(c)
		if v.r.IntN(64) == 0 {
			v.pause(10 * time.Millisecond)
		}
	}
	for range 40 {
		v.pause(100 * time.Millisecond)
		for range 8 { // perhaps there is room for more now
			v.requestDescriptors(all[v.r.IntN(len(all))])
		}
	}
	return nil
}

// requestDescriptors requests descriptors on a connection until the engine hangs up or
// takes no more requests.
func (v *hostile) requestDescriptors(c *raw) {
	_ = c.conn.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
	for _, m := range fdRequests(v.r) {
		c.tag++
		if _, err := c.conn.Write(control.Append(nil, m.op, 0, c.tag, m.req)); err != nil {
			return
		}
		v.did(1)
	}
}

type fdRequest struct {
	op  control.Op
	req control.Message
}

// fdRequests are requests whose answers carry descriptors; the first one of a connection is
// hello. Each object is destroyed at once. Its descriptor is in flight nevertheless, and
// the engine has no other reason to refuse the next request.
func fdRequests(r *rand.Rand) []fdRequest {
	list := []fdRequest{
		{control.OpHello, &control.Hello{Magic: control.Magic, Major: control.Major, Features: control.Features, Name: "hoard"}},
		{control.OpOpenEvents, &control.Empty{}},
		{control.OpWake, &control.Wake{}},
	}
	for id := uint32(1); id < 20; id++ { // they are counted from 1
		if r.IntN(2) == 0 {
			list = append(list, fdRequest{control.OpCreateChannel, &control.Empty{}})
		} else {
			list = append(list, fdRequest{control.OpCreateRegion, &control.RegionSize{Size: 4096 << r.IntN(6)}})
		}
		list = append(list, fdRequest{control.OpDestroyChannel, &control.Channel{ID: id}}, fdRequest{control.OpDropRegion, &control.RegionID{ID: id}})
	}
	return list
}
