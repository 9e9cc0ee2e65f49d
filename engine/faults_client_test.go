//go:build linux && (amd64 || arm64)

package engine

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/nicless/nicless/engine/internal/quota"
	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/shm"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// setRules sets rules by requests, in pieces of n bytes.
func (h *host) setRules(text string, n int) error {
	for at := 0; at < len(text); at += n {
		m := &control.Faults{Total: uint32(len(text)), At: uint32(at), Text: text[at:min(at+n, len(text))]}
		if err := h.try(control.OpSetFaults, m, &control.Empty{}, nil); err != nil {
			return err
		}
	}
	return nil
}

// Pieces of any size make the rules; one that does not go on where the last one ended, and rules with a
// mistake, change nothing.
func TestRulesInPieces(t *testing.T) {
	s := newScene(t, Config{})
	h := s.p.h
	const text = `{"rules": [{"name": "one", "stall": "forever"}, {"rnr": 3}]}`
	for n := 1; n <= len(text); n++ {
		require.NoError(t, h.setRules(text, n))
		require.Len(t, h.c.Device.Faults, 1)
		require.Equal(t, "one", h.c.Device.Faults[0].Rules.Rules()[0].Name)
		require.NotNil(t, s.p.q.Faults)
	}
	before := h.c.Device.Faults[0]
	for want, m := range map[string]*control.Faults{
		"rules of 65537 bytes; at most 65536 are possible":                        {Total: fault.MostText + 1, Text: "x"},
		"piece of rules at 1 of 9 bytes; the next one is at 0 of 0":               {Total: 9, At: 1, Text: "x"},
		"piece of 0 bytes at 0 of 9; at least 1 and at most 9 are possible":       {Total: 9},
		"piece of 3 bytes at 0 of 2; at least 1 and at most 2 are possible":       {Total: 2, Text: "xxx"},
		"piece of 1 bytes at 0 of 0; at least 1 and at most 0 are possible":       {Text: "x"},
		`fault: rule 1: has no action; one of these is needed: complete, stall, `: {Total: 14, Text: `{"rules":[{}]}`},
		"fault: invalid character":                                                {Total: 1, Text: "x"},
	} {
		h.refused(control.CodeInvalid, want, control.OpSetFaults, m, nil)
	}
	h.call(control.OpSetFaults, &control.Faults{Total: 9, Text: "xxxx"}, &control.Empty{})
	h.refused(control.CodeInvalid, "piece of rules at 4 of 8 bytes; the next one is at 4 of 9", control.OpSetFaults, &control.Faults{Total: 8, At: 4, Text: "x"}, nil)
	require.Same(t, before, h.c.Device.Faults[0])
	require.NotNil(t, s.p.q.Faults)
	h.call(control.OpQueryFault, &control.FaultRule{Rule: 1}, &control.FaultCount{})
	h.refused(control.CodeNotFound, "rule 2 of faults: this client has set 2", control.OpQueryFault, &control.FaultRule{Rule: 2}, nil)

	s.put() // waits for ever
	s.settle()
	s.p.scq.none()
	h.call(control.OpSetFaults, &control.Faults{}, &control.Empty{})
	require.Empty(t, h.c.Device.Faults)
	require.Nil(t, s.p.q.Faults)
	s.settle()
	s.p.scq.one()
	h.refused(control.CodeNotFound, "rule 0 of faults: this client has set 0", control.OpQueryFault, &control.FaultRule{}, nil)
}

// A user faults its own clients only, has a limited number of rules, and gets back what they have cost.
func TestRulesAreForOneUser(t *testing.T) {
	r := newRig(t, Config{})
	const alice, bob = 100_001, 100_002
	hosted := func(uid uint32) *host {
		c, err := r.d.nic().NewHosted("h", uid, nic.Hosted{PID: os.Getpid()})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		h := &host{rig: r, base: 0x7000_0000_0000, c: c}
		h.mem, err = shm.Heap(regionSize)
		require.NoError(t, err)
		h.region = h.addRegion(h.base, h.mem)
		h.pd = h.allocPD()
		require.NoError(t, c.UAR.Seal())
		return h
	}
	queue := func(h *host) *end {
		return h.qp(control.QP{}, h.cq(control.CQ{LogSize: 4}), h.cq(control.CQ{LogSize: 4}))
	}
	a, b := hosted(alice), hosted(bob)
	mine, other := queue(a), queue(b)
	const one = `{"rules": [{"rnr": 1}]}`
	setter := hosted(alice)
	require.NoError(t, setter.setRules(one, 99))
	later := queue(b)
	require.NotNil(t, mine.q.Faults)
	require.NotNil(t, queue(a).q.Faults)
	require.Nil(t, other.q.Faults)
	require.Nil(t, later.q.Faults)

	many := func(n int) string {
		return fmt.Sprintf(`{"rules": [%s]}`, strings.TrimSuffix(strings.Repeat(`{"rnr":1},`, n), ","))
	}
	require.NoError(t, b.setRules(many(256), 488))
	err := a.setRules(many(256), 488)
	require.ErrorIs(t, err, &control.Error{Code: control.CodeLimit})
	require.ErrorContains(t, err, "256 rules of faults, beside 1 of other clients of this user; a user may have 256")
	require.NoError(t, a.setRules(many(255), 488))
	require.NoError(t, a.setRules(many(254), 488), "they take the place of the others")
	require.NoError(t, setter.c.Close())
	require.NoError(t, a.setRules(many(256), 488))
	require.NoError(t, r.host("of the device's user").setRules(many(256), 488))

	require.NoError(t, a.c.Close())
	require.NoError(t, b.c.Close())
	require.Len(t, a.c.Device.Faults, 1)
	require.Zero(t, a.c.Device.Ledger.Has(alice)[quota.Memory])
}

// Clients of a user that set rules at the same time have no more than one that sets them alone.
func TestRuleLimitHoldsForAllAtOnce(t *testing.T) {
	r := newRig(t, Config{})
	var hosts []*host
	for range 4 {
		c, err := r.d.nic().NewHosted("h", 100_001, nic.Hosted{PID: os.Getpid()})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		hosts = append(hosts, &host{rig: r, c: c})
	}
	d := hosts[0].c.Device
	taken := d.Ledger.Taken()
	text := fmt.Sprintf(`{"rules": [%s{"rnr":1}]}`, strings.Repeat(`{"rnr":1},`, fault.MostRules-1))
	end := len(text) - 1
	for range 150 {
		for _, h := range hosts {
			for at := 0; at < end; at += 488 {
				m := &control.Faults{Total: uint32(end + 1), At: uint32(at), Text: text[at:min(at+488, end)]}
				h.call(control.OpSetFaults, m, &control.Empty{})
			}
		}
		start, set := make(chan struct{}), make(chan error)
		for _, h := range hosts {
			go func() {
				<-start
				last := &control.Faults{Total: uint32(end + 1), At: uint32(end), Text: text[end:]}
				set <- h.try(control.OpSetFaults, last, &control.Empty{}, nil)
			}()
		}
		close(start)
		good := 0
		for range hosts {
			if err := <-set; err == nil {
				good++
			} else {
				require.ErrorIs(t, err, &control.Error{Code: control.CodeLimit})
			}
		}
		require.Equal(t, 1, good)
		require.Len(t, d.Faults, 1)
		for _, h := range hosts {
			h.call(control.OpSetFaults, &control.Faults{}, &control.Empty{})
		}
		require.Equal(t, taken, d.Ledger.Taken())
	}
}

// Requests are refused with the errno that a rule says, as often as it says for each client. Nothing is made
// by a request that is refused, and other requests are served.
func TestRuleRefusesRequests(t *testing.T) {
	s := newScene(t, Config{})
	h := s.p.h
	scq, rcq := h.cq(control.CQ{LogSize: 4}), h.cq(control.CQ{LogSize: 4})
	h.qp(control.QP{}, scq, rcq)
	set := s.setFaults(
		fault.Rule{Name: "full", Match: fault.Match{Nth: 2}, Refuse: &fault.Refuse{Call: "create_qp", Errno: "ENOMEM"}},
		fault.Rule{Match: fault.Match{Device: "other"}, Refuse: &fault.Refuse{Call: "create_qp", Errno: "EPERM"}},
		fault.Rule{Match: fault.Match{Times: 3}, Refuse: &fault.Refuse{Call: "open_xrcd", Errno: "EAGAIN"}})
	h.qp(control.QP{}, scq, rcq)
	before, taken := h.population(), h.c.Device.Ledger.Taken()
	err := h.try(control.OpCreateQP, &control.QP{}, &control.QPN{}, nil)
	require.ErrorIs(t, err, unix.ENOMEM)
	require.ErrorIs(t, err, &control.Error{Code: control.CodeErrno + 12})
	require.EqualError(t, err, `create_qp: injected by rule "full" (create_qp is refused with ENOMEM)`)
	for range 3 {
		require.ErrorIs(t, h.try(control.OpOpenXRCD, &control.Empty{}, &control.XRCD{}, nil), unix.EAGAIN)
	}
	require.Equal(t, before, h.population())
	require.Equal(t, taken, h.c.Device.Ledger.Taken())
	h.qp(control.QP{}, scq, rcq)
	h.call(control.OpOpenXRCD, &control.Empty{}, &control.XRCD{})
	require.EqualValues(t, []uint64{1, 0, 3}, []uint64{set.Acted(0), set.Acted(1), set.Acted(2)})

	other := s.host("another client")
	for range 3 {
		require.ErrorIs(t, other.try(control.OpOpenXRCD, &control.Empty{}, &control.XRCD{}, nil), unix.EAGAIN)
	}
	other.call(control.OpOpenXRCD, &control.Empty{}, &control.XRCD{})
}

// The owner of rules can always end them.
func TestRulesDoNotRefuseTheirEnd(t *testing.T) {
	r := newRig(t, Config{})
	h := r.host("h")
	require.NoError(t, h.setRules(`{"rules": [{"refuse": {"call": "alloc_pd", "errno": "EIO"}}]}`, 488))
	require.ErrorIs(t, h.try(control.OpAllocPD, &control.Empty{}, &control.PD{}, nil), unix.EIO)
	var n control.FaultCount
	h.call(control.OpQueryFault, &control.FaultRule{}, &n)
	require.EqualValues(t, 1, n.Acted)
	err := h.setRules(`{"rules": [{"refuse": {"call": "set_faults", "errno": "EIO"}}]}`, 488)
	require.ErrorContains(t, err, `refuse: call "set_faults" is none that can be refused`)
	err = h.setRules(`{"rules": [{"refuse": {"call": "creat_qp", "errno": "EIO"}}]}`, 488)
	require.ErrorContains(t, err, `refuse: call "creat_qp" is none that can be refused: did you mean "create_qp"?`)
	err = h.setRules(`{"rules": [{"refuse": {"call": "create_qp", "errno": "ENOMEN"}}]}`, 488)
	require.ErrorContains(t, err, `refuse: errno "ENOMEN" is none of those of calls: did you mean "ENOMEM"?`)
	h.call(control.OpSetFaults, &control.Faults{}, &control.Empty{})
	require.Nil(t, h.c.Device.Refuses.Load())
	h.allocPD()
}

// Rules that refuse requests of one user cost those of others nothing: such requests do not wait for the
// device's thread. The device knows whom rules are for also if they change, and if a client comes later.
func TestRulesDelayNoOthers(t *testing.T) {
	r := newRig(t, Config{})
	hosted := func(uid uint32) *host {
		c, err := r.d.nic().NewHosted("h", uid, nic.Hosted{PID: os.Getpid()})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return &host{rig: r, c: c}
	}
	const alice, bob = 100_001, 100_002
	setter, mine, other := hosted(alice), hosted(alice), hosted(bob)
	// The request is refused before it would need the device's thread: it has no memory.
	request := func(h *host) error {
		return h.try(control.OpCreateRegion, &control.RegionSize{Size: 4096}, &control.RegionID{}, nil)
	}
	spared := func(h *host) {
		h.Helper()
		done := make(chan error, 1)
		var err error
		r.d.runner.Do(func() {
			go func() { done <- request(h) }()
			err = await.Receive(h, "a request that does not need the device's thread", done)
		})
		require.ErrorIs(t, err, &control.Error{Code: control.CodeUnsupported})
	}
	const rule = `{"rules": [{"name": %q, "refuse": {"call": "create_region", "errno": "EIO"}}]}`
	for _, name := range []string{"one", "two"} {
		require.NoError(t, setter.setRules(fmt.Sprintf(rule, name), 488))
		for _, h := range []*host{setter, mine, hosted(alice)} {
			require.ErrorIs(t, request(h), unix.EIO)
			require.ErrorContains(t, request(h), name)
		}
		for range 2 {
			spared(other)
		}
		spared(hosted(bob))
	}
	require.NoError(t, other.setRules(fmt.Sprintf(rule, "his own"), 488))
	require.ErrorContains(t, request(other), "his own")
	require.ErrorContains(t, request(mine), "two")
	setter.call(control.OpSetFaults, &control.Faults{}, &control.Empty{})
	spared(mine)
	require.ErrorContains(t, request(other), "his own")
	other.call(control.OpSetFaults, &control.Faults{}, &control.Empty{})
	spared(other)
}
