package engine

import (
	"testing"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/shm"
	"github.com/stretchr/testify/require"
)

// A request that comes while the engine's thread sleeps runs at once and wakes the thread.
// The thread does not sleep while there are requests.
func TestRequestsRunWhileTheEngineRests(t *testing.T) {
	e := newRig(t, Config{}).e
	m := &e.mail
	ran, woken := 0, 0
	m.open(func() { woken++ })
	require.True(t, m.allowCallers(false))
	e.Do(func() { ran++ })
	require.Equal(t, 1, ran)
	require.Equal(t, 1, woken)
	require.Equal(t, uint64(1), e.served, "who sleeps must look anew")
	e.doWith(noWork, func() { ran++ })
	require.Equal(t, 1, woken, "there is nothing to look for")
	e.doWith(changesWork, func() { ran++ })
	require.Equal(t, 2, woken)
	m.stopCallers()
	require.True(t, m.allowCallers(true))
	e.doWith(changesWork, func() { ran++ })
	require.Equal(t, 2, woken, "a nap is short")
	e.Do(func() { ran++ })
	require.Equal(t, 3, woken)
	require.Equal(t, 5, ran)
	ran = 1
	m.stopCallers()

	l := &mail{f: func() { ran++ }, done: make(chan struct{})}
	m.queue = append(m.queue, l)
	m.waiting.Store(true)
	require.False(t, m.allowCallers(false), "there is a request")
	m.serve()
	l.wait()
	require.Equal(t, 2, ran)
	require.True(t, m.allowCallers(false))
	m.shut()
}

// A client that leaves while the device sleeps takes its status page with it, so the device
// must not write to that page when it wakes.
func TestClientLeavesDuringSleep(t *testing.T) {
	r := newRig(t, Config{})
	r.e.hooks.sleepBound = never
	stays := r.host("stays")
	stays.wakes()
	var leaving []*caller
	hello := control.Append(nil, control.OpHello, 0, 1, &control.Hello{Magic: control.Magic, Major: control.Major, Features: ^uint64(0)})
	for range 20 {
		c, err := r.d.nic().attach("leaves", 0, nic.Hosted{}, shm.Create, shm.CreateSealed)
		require.NoError(t, err)
		_, _, err = c.request(control.OpHello, hello[control.HeaderSize:], requestMemory{})
		require.NoError(t, err)
		leaving = append(leaving, c)
	}
	r.start()
	before := uint64(0)
	resting := func() bool { // not if it naps, or has been woken a second time
		r.e.mail.mu.Lock()
		defer r.e.mail.mu.Unlock()
		before = stays.c.page.asleep.Observe()
		return r.e.mail.callersRun && before != 0
	}
	for _, c := range leaving {
		r.until("asleep", resting)
		require.NoError(t, c.Close())
		r.until("asleep anew", func() bool { return stays.c.page.asleep.Observe() > before })
	}
}
