//go:build linux && (amd64 || arm64)

package boxes

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/stretchr/testify/require"
)

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
	require.Equal(t, "a", o.Deliver(n, message("1")))
	require.Nil(t, o.Deliver(n, message("2")))
	for _, want := range []string{"1", "2"} {
		m, ok := o.Next("a")
		require.True(t, ok)
		require.Equal(t, want, m.Value)
		require.Nil(t, o.Deliver(n, message("later")), "it still reads")
	}
	for range 2 {
		_, ok := o.Next("a")
		require.True(t, ok)
	}
	_, ok := o.Next("a")
	require.False(t, ok)
	require.Equal(t, "a", o.Deliver(n, message("3")))
	o.Missed("a")
	require.Equal(t, "a", o.Deliver(n, message("4")))

	o.Close("a")
	o.Close("b")
	o.Missed("a")
	require.Nil(t, o.Deliver(n, message("5")))
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
	o.Deliver(n, nic.BoxMessage{Value: strings.Repeat("x", control.MaxMessageValue+1)})
	_, ok := o.Next(0)
	require.False(t, ok, "it is too long")
	for i := range Depth + 1 {
		o.Deliver(n, nic.BoxMessage{Value: fmt.Sprint(i)})
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
				o.Deliver(n, flood(i+1))
			}
			const others = Depth - 1
			for i := range others {
				o.Deliver(n, nic.BoxMessage{Device: 1, Number: uint64(100 + i), Value: fmt.Sprint(i)})
				o.Deliver(n, flood(i+1))
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
