//go:build linux && (amd64 || arm64)

package explore

import (
	"testing"

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
