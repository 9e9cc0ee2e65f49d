package engine

import (
	"context"
	"testing"
	"time"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/request"
	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/stretchr/testify/require"
)

func after(d time.Duration) fault.Match { return fault.Match{After: fault.Duration(d)} }

// A port goes down when the rules say so by the device's clock, and comes up again; what waits goes on.
func TestRuleTakesAPortDown(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		s.pass(0)
		next := s.p.h.events()
		set := s.setFaults(fault.Rule{Match: after(time.Second),
			Port: &fault.Port{Down: fault.Duration(time.Minute)}})
		s.steps(200)
		require.Zero(t, set.Acted(0))
		s.put()
		s.settle()
		s.p.good()
		s.pass(time.Second)
		s.steps(200)
		require.Equal(t, uint64(1), set.Acted(0))
		require.Equal(t, nic.PortState{Down: true}, s.d.nic().PortState(0))
		s.put()
		s.steps(2000)
		s.pass(59 * time.Second)
		s.steps(2000)
		s.p.scq.none()
		s.pass(time.Second)
		s.steps(200)
		s.passTimeout()
		s.p.good()
		require.Equal(t, []happening{{control.EventPortError, 1}, {control.EventPortActive, 1}}, happened(next))
	})
}

// A port that is down for ever comes up when the rules end, and one that two rules take down comes up when
// both allow it.
func TestEndOfRulesEndsAnOutage(t *testing.T) {
	s := newScene(t, Config{})
	s.pass(0)
	down := func() bool { return s.d.nic().PortState(0).Down }
	rules := func(d fault.Duration) (end func()) {
		set, err := fault.NewSet(&fault.Rules{Rules: []fault.Rule{{Port: &fault.Port{Down: d}}}})
		require.NoError(t, err)
		r := s.p.h.c.Device.SetFaults(set, nil)
		return func() { s.p.h.c.Device.EndFaults(r) }
	}
	end := rules(fault.Forever)
	rules(fault.Duration(time.Second))
	s.steps(200)
	require.True(t, down())
	s.pass(time.Minute)
	s.steps(200)
	require.True(t, down(), "the second rule lets it up, the first does not")
	end()
	require.False(t, down())
	end = rules(fault.Duration(time.Second))
	end()
	s.pass(time.Minute)
	s.steps(200)
	require.False(t, down(), "rules that have ended do nothing")
}

// A rule about one device does nothing to another. The GID stays when the rules end.
func TestRuleChangesAGID(t *testing.T) {
	s := newScene(t, Config{})
	s.pass(0)
	next := s.p.h.events()
	m := after(time.Second)
	m.Device = "nicless3"
	s.setFaults(fault.Rule{Match: m, GID: fault.ChangeGID})
	set := s.setFaults(fault.Rule{Match: fault.Match{Device: "nicless0"}, GID: fault.ChangeGID})
	s.pass(time.Second)
	s.steps(200)
	require.Equal(t, uint64(1), set.Acted(0))
	for n, want := range map[uint8]uint32{0: 1, 1: 0, 3: 1} {
		require.Equal(t, nic.PortState{Changes: want}, s.d.nic().PortState(n))
	}
	s.put()
	s.settle()
	s.expire()
	s.failed(s.p.scq.one(), cqe.TransportRetry, 0)
	require.Contains(t, explanations(next), codes.GIDChanged.String())
}

// Users who may not watch all may not fault ports, which serve all.
func TestWhoMayFaultPorts(t *testing.T) {
	r := newRig(t, Config{})
	rules := func(rule fault.Rule) *fault.Set {
		set, err := fault.NewSet(&fault.Rules{Rules: []fault.Rule{rule}})
		require.NoError(t, err)
		return set
	}
	outage := rules(fault.Rule{Name: "cable", Port: &fault.Port{Down: fault.Forever}})
	d := request.Device{Runner: r.d.runner}
	other, err := d.NewHosted("other", 12345, nic.Hosted{})
	require.NoError(t, err)
	defer other.Close()
	require.NoError(t, d.MayFault(outage, nil))
	require.NoError(t, d.MayFault(outage, r.host("own").c.Client))
	require.NoError(t, d.MayFault(rules(fault.Rule{Stall: fault.Forever}), other.Client))
	err = d.MayFault(outage, other.Client)
	require.ErrorContains(t, err, `rule "cable" (the port is down for ever): a port serves all users`)
	text := `{"rules": [{"name": "cable", "port": {"down": "forever"}}]}`
	_, _, err = other.Call(control.OpSetFaults, control.Append(nil, control.OpSetFaults, 0, 0,
		&control.Faults{Total: uint32(len(text)), Text: text})[control.HeaderSize:])
	var refused *control.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, control.CodeDenied, refused.Code)
	f := d.SetFaults(outage, other.Client)
	r.steps(200)
	require.False(t, d.PortState(0).Down)
	d.EndFaults(f)
}

// The thread of a device that sleeps wakes for the plan.
func TestRuleWakesTheDevice(t *testing.T) {
	e, err := New(Config{Faults: &fault.Rules{Rules: []fault.Rule{
		{Match: after(300 * time.Millisecond), Port: &fault.Port{Down: fault.Duration(300 * time.Millisecond)}}}}})
	require.NoError(t, err)
	e.runner.Loops[0].Hooks.SleepBound = time.Hour
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx, nil) }()
	for _, down := range []bool{true, false} {
		await.Until(t, "the port changes", func() bool { return e.nic().PortState(0).Down == down })
	}
	stop()
	require.NoError(t, <-ended)
}

// Rules of faults are about the device that has their name.
func TestRulesMatchTheDevicesName(t *testing.T) {
	s := newScene(t, Config{DeviceNames: "mlx5_%d"})
	s.pass(0)
	s.setFaults(fault.Rule{Match: fault.Match{Device: "nicless0"}, GID: fault.ChangeGID},
		fault.Rule{Match: fault.Match{Device: "mlx5_0"}, GID: fault.ChangeGID},
		fault.Rule{Match: fault.Match{Device: "mlx5_31"}, GID: fault.ChangeGID})
	s.steps(200)
	require.EqualValues(t, 1, s.d.nic().PortState(0).Changes)
	require.EqualValues(t, 0, s.d.nic().PortState(1).Changes)
	require.EqualValues(t, 1, s.d.nic().PortState(31).Changes)
}
