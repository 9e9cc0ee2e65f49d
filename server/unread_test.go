package server

import (
	"net"
	"testing"

	"github.com/nicless/nicless/engine"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/stretchr/testify/require"
)

// A user whose clients do not read their answers gets no more answers with descriptors until
// they read them. Other users get their answers.
func TestDescriptorsInUnreadAnswersCount(t *testing.T) {
	r := newRig(t, engine.Config{})
	r.bound(nic.Bounds{Unread: 8})
	f := &unreadAnswers{device: r.d}
	answer := func(conn *net.UnixConn) {
		_, _, err := conn.WriteMsgUnix([]byte("answer"), nil, nil)
		require.NoError(t, err)
		f.sent(conn)
	}
	one, its := pair(t)
	require.NoError(t, f.charge(one, 7, 2))
	answer(one)
	require.ErrorContains(t, f.charge(one, 7, 1), "read the answers to the requests before it first")
	two, _ := pair(t)
	require.NoError(t, f.charge(two, 7, 2))
	answer(two)
	three, _ := pair(t)
	require.ErrorIs(t, f.charge(three, 7, 1), &control.Error{Code: control.CodeLimit}, "four of eight are one user's share")
	stranger, _ := pair(t)
	require.NoError(t, f.charge(stranger, 8, 2)) // an answer that is about to be sent

	_, err := its.Read(make([]byte, 16))
	require.NoError(t, err)
	require.NoError(t, f.charge(three, 7, 1), "one has read meanwhile")
	f.wait(t.Context(), three)
	require.NoError(t, f.charge(one, 7, 1), "and may ask again")
	f.wait(t.Context(), one)
	require.Equal(t, nic.Cost{Unread: 4}, r.held().Cost, "what two and the stranger have not read")
}

// An unread answer still counts after the connection has ended, until the client closes its end.
func TestUnreadAnswersCountBeyondTheEnd(t *testing.T) {
	r := newRig(t, engine.Config{})
	c := r.dial(r.serve())
	c.hello()
	c.send(control.Append(nil, control.OpOpenEvents, 0, 1, &control.Empty{}))
	count := func() int { return r.held().Cost.Unread }
	r.until("the answer is under way", func() bool { return count() == 1 })
	require.NoError(t, c.conn.CloseWrite())
	r.until("the client is gone", func() bool { return len(r.held().Clients) == 0 })
	require.Equal(t, 1, count())
	c.close()
	r.until("it counts no more", func() bool { return count() == 0 })
}
