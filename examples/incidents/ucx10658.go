package main

import (
	"fmt"
	"time"

	"github.com/nicless/nicless"
)

// A sender puts data, and then a number that says so. The receiver polls the number. The two
// puts have no fence between them, so the number may become visible first. It did so when a new
// generation of devices placed data out of order.
var ucx10658 = incident{
	name:  "ucx-10658",
	link:  "https://github.com/openucx/ucx/pull/10658",
	title: "a put overtakes the put before it",
	play: func(s *stage) (string, error) {
		return flagAndData(s, nicless.FullAccess)
	},
}

// The same with memory that is registered for relaxed ordering, which lets writes of the device
// pass each other on PCI Express.
var deepep40 = incident{
	name:  "deepep-40",
	link:  "https://github.com/deepseek-ai/DeepEP/issues/40",
	title: "memory has relaxed ordering, and a flag overtakes the data that it announces",
	play: func(s *stage) (string, error) {
		return flagAndData(s, nicless.FullAccess|nicless.RelaxedOrdering)
	},
}

// flagAndData puts data and a flag, again and again, and looks at the data when the flag is there.
func flagAndData(s *stage, access nicless.Access) (string, error) {
	a, _, err := s.pair(nicless.Connection{})
	if err != nil {
		return "", err
	}
	mr, err := s.pd.RegisterMemory(1<<16, access)
	if err != nil {
		return "", err
	}
	const (
		data, size, flag = 0, 2048, 4096
		mostPuts         = 20000 // the window between the two is short, and this thread may have no core
	)
	puts := uint64(mostPuts)
	if s.rules == nil {
		puts = 1000
	}
	for n := uint64(1); n <= puts; n++ {
		for off := 0; off < size; off += 8 {
			a.mr.Store64(data+off, n)
		}
		a.mr.Store64(flag, n)
		if _, err := a.qp.PostSendList([]nicless.SendWR{
			{ID: 1, Op: nicless.Write, SGE: []nicless.SGE{a.mr.SGE(data, size)}, RemoteAddr: mr.Addr(), RKey: mr.RKey()},
			{ID: 2, Op: nicless.Write, SGE: []nicless.SGE{a.mr.SGE(flag, 8)}, Flags: nicless.Signaled,
				RemoteAddr: mr.Addr() + flag, RKey: mr.RKey()},
		}); err != nil {
			return "", err
		}
		for end := time.Now().Add(20 * time.Second); mr.Load64(flag) != n; {
			if time.Now().After(end) {
				return "", fmt.Errorf("put %d does not arrive", n)
			}
		}
		late := 0
		for off := 0; off < size; off += 8 {
			if mr.Load64(data+off) != n {
				late++
			}
		}
		var one [1]nicless.Completion
		for k := 0; k == 0; {
			if k, err = a.cq.Poll(one[:]); err != nil {
				return "", err
			}
		}
		if err := one[0].Err(); err != nil {
			return "", err
		}
		if n == 1 {
			s.dump(a.cq, 0)
		}
		if late > 0 {
			return "the flag is there, and its data is not", nil
		}
	}
	return "", nil
}
