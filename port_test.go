package nicless

import (
	"fmt"
	"testing"
	"time"

	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/internal/nic"
	"github.com/stretchr/testify/require"
)

// A client gets an event when its port goes down, comes back, or gets another GID, and can ask for the state.
func TestPortOfAClient(t *testing.T) {
	c, err := Open(Config{})
	require.NoError(t, err)
	defer c.Close()
	d := nic.Of(c.dev.(*embedded).engine)
	happens := func(want EventKind, text string) Port {
		t.Helper()
		ev, err := c.NextEvent(t.Context())
		require.NoError(t, err)
		require.Equal(t, Event{Kind: want, Number: 1}, ev)
		require.Equal(t, text, fmt.Sprint(ev))
		p, err := c.Port()
		require.NoError(t, err)
		return p
	}
	before, err := c.Port()
	require.NoError(t, err)
	require.True(t, before.Active)
	d.SetPort(0, false)
	require.Equal(t, Port{GID: before.GID}, happens(EventPortError, "port 1: port_error"))
	d.SetPort(0, true)
	require.Equal(t, before, happens(EventPortActive, "port 1: port_active"))
	d.ChangeGID(0)
	after := happens(EventGIDChange, "port 1: gid_change")
	require.True(t, after.Active)
	require.Equal(t, uint32(1), after.Changes)
	require.NotEqual(t, before.GID, after.GID)

	c.limits.Minor = minorPort - 1
	_, err = c.Port()
	require.ErrorContains(t, err, "the engine's protocol is 2.5; 2.6 is needed")
}

// A rule takes the port down for a while, by the clock of the engine.
func TestRuleOfAPort(t *testing.T) {
	c, err := Open(Config{})
	require.NoError(t, err)
	defer c.Close()
	f, err := c.Faults(fault.Rules{Rules: []fault.Rule{{Match: fault.Match{Device: "nicless0"},
		Port: &fault.Port{Down: fault.Duration(30 * time.Millisecond)}}}})
	require.NoError(t, err)
	defer f.Close()
	for _, want := range []EventKind{EventPortError, EventPortActive} {
		ev, err := c.NextEvent(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, ev.Kind)
	}
	p, err := c.Port()
	require.NoError(t, err)
	require.True(t, p.Active)
}
