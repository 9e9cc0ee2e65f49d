//go:build linux && (amd64 || arm64)

package verbs

import "github.com/nicless/nicless/verbs/internal/nldev"

// Counters in NETLINK_RDMA. Counters by queue pair do not exist, and none is optional.

// countersOf returns the counters of a device's port, in the order of their numbers.
func (l *netlinks) countersOf(d *device) []nldev.Counter {
	if l.counters == nil {
		return nil
	}
	return l.counters(d)
}

func getCounters(c *netlinkCall) (nldev.List, error) {
	d, port, err := c.devicePort()
	if err != nil {
		return nil, err
	}
	about, ok := c.attrs.Uint32(nldev.AttrStatRes)
	switch {
	case !ok:
		all := c.k.s.netlink.countersOf(d)
		if len(all) == 0 {
			return nil, eINVAL // as from a driver without counters
		}
		return d.netlinkInfo().Counters(port, all), nil
	case about != nldev.StatResQP:
		return nil, eINVAL
	case c.attrs.Has(nldev.AttrStatMode):
		return d.netlinkInfo().CounterMode(port, nldev.StatNone), nil
	case c.attrs.Has(nldev.AttrStatCounterID):
		return nil, eNOENT
	}
	return nil, eINVAL
}

// dumpCounters answers which counters of queue pairs or memory regions there are.
func dumpCounters(c *netlinkCall) (*netlinkDump, error) {
	about, ok := c.attrs.Uint32(nldev.AttrStatRes)
	switch {
	case !ok:
		return nil, eINVAL
	case about == nldev.StatResMR:
		return c.dumpEntries(nldev.MR, func(_ *device, r resource) (entry, bool) {
			return entry{attributes: nldev.CountedMR(r.id)}, true
		})
	case about != nldev.StatResQP:
		return nil, eINVAL
	}
	if _, err := c.device(); err != nil {
		return nil, err
	}
	return c.once(nldev.CmdStatGet), nil
}

func getCounterStatus(c *netlinkCall) (nldev.List, error) {
	d, port, err := c.devicePort()
	if err != nil {
		return nil, err
	}
	all := c.k.s.netlink.countersOf(d)
	if len(all) == 0 {
		return nil, eINVAL
	}
	return d.netlinkInfo().CounterStatus(port, all), nil
}
