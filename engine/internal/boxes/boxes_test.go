//go:build linux && (amd64 || arm64)

package boxes

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nicless/nicless/internal/board"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/rendezvous"
	"github.com/stretchr/testify/require"
)

// deliver puts a message into a box that has to take it, or to drop it without a word.
func deliver(t *testing.T, o *Office, to uint64, m nic.BoxMessage) (owner any) {
	t.Helper()
	owner, err := o.Deliver(to, m)
	require.NoError(t, err)
	return owner
}

// An owner is notified once until it has found its box empty, and reads messages in their order.
func TestNotices(t *testing.T) {
	var o Office
	n, err := o.Open("a")
	require.NoError(t, err)
	again, err := o.Open("a")
	require.NoError(t, err)
	require.Equal(t, n, again)
	require.Equal(t, n, o.Of("a"))
	require.Zero(t, o.Of("b"))
	message := func(s string) nic.BoxMessage { return nic.BoxMessage{Number: 1, Value: s} }
	require.Equal(t, "a", deliver(t, &o, n, message("1")))
	require.Nil(t, deliver(t, &o, n, message("2")))
	for _, want := range []string{"1", "2"} {
		m, ok := o.Next("a")
		require.True(t, ok)
		require.Equal(t, want, m.Value)
		require.Nil(t, deliver(t, &o, n, message("later")), "it still reads")
	}
	for range 2 {
		_, ok := o.Next("a")
		require.True(t, ok)
	}
	_, ok := o.Next("a")
	require.False(t, ok)
	require.Equal(t, "a", deliver(t, &o, n, message("3")))
	o.Missed("a")
	require.Equal(t, "a", deliver(t, &o, n, message("4")))

	o.Close("a")
	o.Close("b")
	o.Missed("a")
	require.Nil(t, deliver(t, &o, n, message("5")))
	_, ok = o.Next("a")
	require.False(t, ok)
	require.Empty(t, o.byNumber)
	require.Empty(t, o.byOwner)
}

// A message is dropped if it does not fit, and otherwise not.
func TestBounds(t *testing.T) {
	var o Office
	n, err := o.Open(0)
	require.NoError(t, err)
	deliver(t, &o, n, nic.BoxMessage{Value: strings.Repeat("x", control.MaxMessageValue+1)})
	_, ok := o.Next(0)
	require.False(t, ok, "it is too long")
	for i := range Depth + 1 {
		deliver(t, &o, n, nic.BoxMessage{Value: fmt.Sprint(i)})
	}
	for i := range Depth {
		m, ok := o.Next(0)
		require.True(t, ok)
		require.Equal(t, fmt.Sprint(i), m.Value)
	}
	_, ok = o.Next(0)
	require.False(t, ok)

	for i := 1; i < Most; i++ {
		_, err := o.Open(i)
		require.NoError(t, err)
	}
	_, err = o.Open(Most)
	require.ErrorContains(t, err, "4096 clients have boxes for messages already")
	o.Close(7)
	_, err = o.Open(Most)
	require.NoError(t, err)
}

// A dial gets to a client that has announced names for the user who dials, and everything else to everybody.
func TestDialsOfOthers(t *testing.T) {
	const user, other = 1000, 1001
	dial := rendezvous.Message{Name: "db", Kind: rendezvous.Dial, ID: 7}
	cut := rendezvous.Message{Name: "db\x00x", Kind: rendezvous.Dial, ID: 7} // in C, the same name
	ready := rendezvous.Message{Kind: rendezvous.Ready, ID: 7}
	var o Office
	n, err := o.Open("a")
	require.NoError(t, err)
	gets := func(m *rendezvous.Message, from uint32) bool {
		_, err := o.Deliver(n, nic.BoxMessage{Device: 1, Number: 2, User: from, Value: string(m.Append(nil))})
		if err != nil {
			require.ErrorContains(t, err, strconv.Quote(m.Name)+` is not a name of that client for programs of this user`)
			require.ErrorIs(t, err, &control.Error{Code: control.CodeDenied})
		}
		_, ok := o.Next("a")
		require.Equal(t, err == nil, ok)
		return ok
	}
	for _, row := range []struct {
		name    string
		listen  func()
		allowed []uint32
	}{
		{"it does not listen", func() {}, nil},
		{"for its user", func() { o.Listen("a", user) }, []uint32{user}},
		{"for all", func() { o.Listen("a", board.AllUsers) }, []uint32{0, user, other, nic.NoUser}},
		{"for its user again", func() { o.Listen("a", user) }, []uint32{user}},
	} {
		row.listen()
		for _, from := range []uint32{0, user, other, nic.NoUser} {
			require.Equal(t, slices.Contains(row.allowed, from), gets(&dial, from), "%s: %d", row.name, from)
			require.Equal(t, slices.Contains(row.allowed, from), gets(&cut, from), "%s: %d", row.name, from)
			require.True(t, gets(&ready, from))
		}
	}
	o.Listen("unknown", user)
}

// A sender that fills a box again and again leaves room for others, whether it is a client or an address.
func TestFlood(t *testing.T) {
	address := [16]byte{15: 1}
	for name, flood := range map[string]func(i int) nic.BoxMessage{
		"client": func(int) nic.BoxMessage { return nic.BoxMessage{Device: 1, Number: 66, Value: "flood"} },
		"address": func(i int) nic.BoxMessage {
			return nic.BoxMessage{Device: uint64(i), Number: uint64(i), GID: address, Value: "flood"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var o Office
			n, err := o.Open(0)
			require.NoError(t, err)
			for i := range 2 * Depth {
				deliver(t, &o, n, flood(i+1))
			}
			const others = Depth - 1
			for i := range others {
				deliver(t, &o, n, nic.BoxMessage{Device: 1, Number: uint64(100 + i), Value: fmt.Sprint(i)})
				deliver(t, &o, n, flood(i+1))
			}
			var got []string
			for m, ok := o.Next(0); ok; m, ok = o.Next(0) {
				got = append(got, m.Value)
			}
			require.Len(t, got, Depth)
			require.Equal(t, "flood", got[0])
			for i := range others {
				require.Equal(t, fmt.Sprint(i), got[1+i])
			}
			require.Empty(t, o.byNumber[n].each)
		})
	}
}
