//go:build linux && (amd64 || arm64)

package torture

import (
	"math/rand/v2"
	"time"

	"github.com/nicless/nicless/internal/control"
)

// How many connections a hoarder makes. hoardMany is more than it can get. With hoardSome,
// descriptors do not run out, so no request is refused for lack of them. A hoarder that runs as
// the same user as correct clients makes only hoardFew connections, so that enough descriptors
// are left for those clients.
const (
	hoardMany = 600
	hoardSome = 80
	hoardFew  = 40
)

// hoard makes many connections, requests every kind of descriptor on each, and reads no
// answers. The kernel counts the unread descriptors against the limit of the engine's user. The connections
// stay for some seconds. The engine may refuse requests.
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
		c, err := v.dial()
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
		for range 8 { // there may be room for more descriptors now
			v.requestDescriptors(all[v.r.IntN(len(all))])
		}
	}
	return nil
}

// requestDescriptors requests descriptors on a connection until the engine ends the connection
// or takes no more requests.
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

// fdRequests returns requests whose answers carry descriptors. The first request of a connection
// is hello. Each object is destroyed at once, so that the engine has no other reason to refuse
// the next request. The descriptor of a destroyed object is still unread.
func fdRequests(r *rand.Rand) []fdRequest {
	list := []fdRequest{
		{control.OpHello, &control.Hello{Magic: control.Magic, Major: control.Major, Features: control.Features, Name: "hoard"}},
		{control.OpOpenEvents, &control.Empty{}},
		{control.OpWake, &control.Wake{}},
	}
	for id := uint32(1); id < 20; id++ { // ids are counted from 1
		if r.IntN(2) == 0 {
			list = append(list, fdRequest{control.OpCreateChannel, &control.Empty{}})
		} else {
			list = append(list,
				fdRequest{control.OpCreateRegion, &control.RegionSize{Size: 4096 << r.IntN(6)}})
		}
		list = append(list, fdRequest{control.OpDestroyChannel, &control.Channel{ID: id}},
			fdRequest{control.OpDropRegion, &control.RegionID{ID: id}})
	}
	return list
}
