package engine

import (
	"testing"

	"github.com/nicless/nicless/engine/internal/mailbox"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/request"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/shm"
	"github.com/stretchr/testify/require"
)

// A request that comes while the engine's thread sleeps runs at once and wakes the thread.
// The thread does not sleep while there are requests.
func TestRequestsRunWhileTheEngineRests(t *testing.T) {
	e := newRig(t, Config{}).e
	m := &e.Mail
	ran, woken := 0, 0
	m.Open(func() { woken++ })
	require.True(t, m.AllowCallers(false))
	e.Do(func() { ran++ })
	require.Equal(t, 1, ran)
	require.Equal(t, 1, woken)
	require.Equal(t, uint64(1), e.Served, "who sleeps must look anew")
	e.DoWith(mailbox.NoWork, func() { ran++ })
	require.Equal(t, 1, woken, "there is nothing to look for")
	e.DoWith(mailbox.ChangesWork, func() { ran++ })
	require.Equal(t, 2, woken)
	m.StopCallers()
	require.True(t, m.AllowCallers(true))
	e.DoWith(mailbox.ChangesWork, func() { ran++ })
	require.Equal(t, 2, woken, "a nap is short")
	e.Do(func() { ran++ })
	require.Equal(t, 3, woken)
	require.Equal(t, 5, ran)
	ran = 1
	m.StopCallers()

	l := &mailbox.Mail{F: func() { ran++ }, Done: make(chan struct{})}
	m.Queue = append(m.Queue, l)
	m.Waiting.Store(true)
	require.False(t, m.AllowCallers(false), "there is a request")
	m.Serve()
	l.Wait()
	require.Equal(t, 2, ran)
	require.True(t, m.AllowCallers(false))
	m.Shut()
}

// A client that leaves while the device sleeps takes its status page with it, so the device
// must not write to that page when it wakes.
func TestClientLeavesDuringSleep(t *testing.T) {
	r := newRig(t, Config{})
	r.e.Hooks.SleepBound = never
	stays := r.host("stays")
	stays.wakes()
	var leaving []*request.Client
	hello := control.Append(nil, control.OpHello, 0, 1, &control.Hello{Magic: control.Magic, Major: control.Major, Features: ^uint64(0)})
	for range 20 {
		c, err := r.d.nic().NewClient("leaves", 0, nic.Hosted{}, shm.Create, shm.CreateSealed)
		require.NoError(t, err)
		_, _, err = c.Request(control.OpHello, hello[control.HeaderSize:], object.RequestMemory{})
		require.NoError(t, err)
		leaving = append(leaving, c)
	}
	r.start()
	before := uint64(0)
	resting := func() bool { // not if it naps, or has been woken a second time
		r.e.Mail.Mu.Lock()
		defer r.e.Mail.Mu.Unlock()
		before = stays.c.Page.Asleep.Observe()
		return r.e.Mail.CallersRun && before != 0
	}
	for _, c := range leaving {
		r.until("asleep", resting)
		require.NoError(t, c.Close())
		r.until("asleep anew", func() bool { return stays.c.Page.Asleep.Observe() > before })
	}
}
