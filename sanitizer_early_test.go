//go:build linux && amd64

package nicless

import (
	"strings"
	"testing"

	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/sanitize"
	"github.com/stretchr/testify/require"
)

// A receiver is a suspect that posts whole pages for messages.
type receiver struct {
	*suspect
	mr *MR
}

func withReceivers(t *testing.T, f func(*receiver)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) {
		if shm.RaceEnabled {
			t.Skip("with the race detector, device and program share a mapping")
		}
		c, err := Open(Config{})
		require.NoError(t, err)
		f(newReceiver(t, c))
	})
	t.Run("dialled", func(t *testing.T) { f(newReceiver(t, dialled(t))) })
}

func newReceiver(t *testing.T, c *Context) *receiver {
	t.Helper()
	x := &receiver{suspect: newSuspect(t, c, SanitizerConfig{})}
	var err error
	x.mr, err = x.pd.RegisterMemory(4*4096, FullAccess)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return x
}

func postPage(x *receiver, page int) {
	x.Helper()
	require.NoError(x, x.a[1].PostRecv(&RecvWR{SGE: []SGE{x.mr.SGE(page*4096, 4096)}}))
}

func TestSanitizerFindsEarlyRead(t *testing.T) {
	withReceivers(t, func(x *receiver) {
		mem := x.mr.Bytes()
		postPage(x, 1)
		postPage(x, 2)
		_ = readEarly(mem, 2*4096+7)
		x.post(x.a[0], x.wr(Send, sentAt, 0), x.wr(Send, sentAt, 0))
		x.take(4)
		_, _ = readEarly(mem, 4096), readEarly(mem, 2*4096)
		list := x.reports()
		require.Len(x, list, 1)
		r := list[0]
		require.Equal(x, sanitize.ReceiveBufferRead, r.Code)
		require.Equal(x, sanitize.Error, r.Severity)
		require.Equal(x, x.mr.Addr()+2*4096+7, r.Accesses[0].Addr)
		require.Equal(x, uint16(1), *r.Accesses[1].Index)
		require.Equal(x, x.a[1].QPN(), r.Accesses[1].QP)
		require.Contains(x, r.Accesses[0].Stack[0], ".readEarly")
		require.Contains(x, r.Accesses[0].Stack[1], "TestSanitizerFindsEarlyRead")
		require.Contains(x, r.Accesses[1].Stack[0], ".postPage")
		require.Contains(x, strings.Join(r.Accesses[1].Stack, " "), "TestSanitizerFindsEarlyRead")
	})
}

// The device sees the change, and the program knows which line has made it. It is reported once.
func TestSanitizerFindsEarlyWrite(t *testing.T) {
	withReceivers(t, func(x *receiver) {
		postPage(x, 1)
		x.post(x.a[0], x.wr(Write, otherAt, otherAt)) // its visit finds the receive too
		x.take(1)
		x.mr.Bytes()[4096] = 1
		x.post(x.a[0], x.wr(Send, sentAt, 0))
		x.take(2)
		list := x.reports()
		require.Len(x, list, 1)
		require.Equal(x, sanitize.ReceiveBufferChanged, list[0].Code)
		require.Equal(x, sanitize.Error, list[0].Severity)
		require.Contains(x, list[0].Accesses[0].Stack[0], ".postPage")
		require.Contains(x, list[0].Accesses[1].Stack[0], "TestSanitizerFindsEarlyWrite")
	})
}

// A program that posts the memory from which it sends, and stores there before, makes no mistake.
func TestSendFromReceiveBuffer(t *testing.T) {
	withReceivers(t, func(x *receiver) {
		postPage(x, 1)
		x.mr.Bytes()[4096] = 1
		wr := x.wr(Send, sentAt, 0)
		wr.SGE = []SGE{x.mr.SGE(4096, 8)}
		x.post(x.a[0], wr)
		x.take(2)
		require.Equal(x, byte(1), x.mr.Bytes()[4096])
		require.Empty(x, x.reports())
	})
}

// After the end of the Sanitizer, buffers are like other memory.
func TestEarlyReadAfterSanitizer(t *testing.T) {
	withReceivers(t, func(x *receiver) {
		mem := x.mr.Bytes()
		postPage(x, 1)
		require.NoError(x, x.s.Close())
		_ = readEarly(mem, 4096)
		postPage(x, 2)
		_ = readEarly(mem, 2*4096)
		x.post(x.a[0], x.wr(Send, sentAt, 0), x.wr(Send, sentAt, 0))
		x.take(4)
		require.Empty(x, x.reports())
	})
}
