//go:build linux && (amd64 || arm64)

package explore

import (
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/stretchr/testify/require"
)

// A WQE in the register is executed although the record does not say that it is posted.
func TestRegister(t *testing.T) {
	p := &Plan{Clients: 1, Links: []Link{{Transport: rc, Timeout: 14, Register: true}}}
	require.NoError(t, p.Check())
	w := &world{plan: p}
	require.NoError(t, w.open())
	q := w.ends[0]
	work := &Work{Op: operations[0], ID: 1, N: 8}
	require.NoError(t, w.post(q, []Work{*work}, 0)) // so that the device looks at the register
	w.stepAll()
	from := q.sent
	require.NoError(t, w.write(q, work))
	q.ringRegister(from)
	w.stepAll()
	w.poll(q, all)
	require.Nil(t, w.fault)
	require.Empty(t, q.work)
	require.Equal(t, 2, w.polled)
	require.NoError(t, w.close())
	w.leaks()
	require.Nil(t, w.fault)
}

// The memory of a client that is closed stays as it is.
func TestClosedMemory(t *testing.T) {
	p := &Plan{Clients: 2, Links: []Link{{Transport: rc, Ends: [2]int{0, 1}, Timeout: 14}}}
	w := &world{plan: p}
	require.NoError(t, w.open())
	w.kill(w.clients[1])
	w.untouched()
	require.Nil(t, w.fault)
	w.clients[1].mem[5]++
	w.untouched()
	require.Contains(t, w.fault.String(), "client 1: wrong bytes: ")
	require.Contains(t, w.fault.Found, " at byte 5 of all of its memory")
	require.NoError(t, w.close())
}

// A completion of a work request without signal is a fault, and so is one with another user index or opcode.
func TestWrongCompletions(t *testing.T) {
	for want, change := range map[string]func(q *end, b []byte){
		"has no signal":      func(q *end, _ []byte) { q.work[0].Silent = true },
		"user index 0xabcd0": func(_ *end, b []byte) { b[cqe.OffUIdx+3] ^= 1 },
		"the opcode of wqe":  func(_ *end, b []byte) { b[cqe.OffQPN] ^= 1 },
	} {
		p := &Plan{Clients: 1, Links: []Link{{Transport: rc, Timeout: 14}}}
		w := &world{plan: p}
		require.NoError(t, w.open())
		q := w.ends[0]
		require.NoError(t, w.post(q, []Work{{Op: operations[0], ID: 1, N: 8}}, 0))
		w.stepAll()
		change(q, q.cq.ring)
		w.poll(q, all)
		require.NotNil(t, w.fault, want)
		require.Contains(t, w.fault.Expected, want)
		require.NoError(t, w.close())
	}
}
