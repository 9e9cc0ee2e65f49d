package nicless

import (
	"context"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// An engine that closes the connection, but keeps its event descriptors open, still counts
// as gone.
func TestEngineThatKeepsDescriptors(t *testing.T) {
	uar, err := shm.Create("uar", 4*4096)
	require.NoError(t, err)
	defer uar.Close()
	status, err := shm.CreateSealed("status", 4096)
	require.NoError(t, err)
	defer status.Close()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	pages := []int{int(uar.File().Fd()), int(status.File().Fd())}
	path := pretend(t, func(h control.Header) ([]byte, []int) {
		say := func(m control.Message) []byte { return control.Append(nil, h.Op, control.FlagAnswer, h.Tag, m) }
		switch h.Op {
		case control.OpHello:
			return say(&welcome), pages
		case control.OpOpenEvents:
			return say(&control.Empty{}), []int{fds[1]}
		case control.OpCreateChannel:
			return say(&control.Channel{ID: 1}), []int{fds[1]}
		}
		return nil, nil // closes the connection
	})
	c, err := Dial(path)
	require.NoError(t, err)
	defer c.Close()
	ch, err := c.CreateChannel()
	require.NoError(t, err)
	ended := make(chan error, 2)
	go func() { _, err := ch.Wait(context.Background()); ended <- err }()
	go func() { _, err := c.NextEvent(context.Background()); ended <- err }()
	_, err = c.AllocPD()
	require.ErrorIs(t, err, ErrDeviceGone)
	for range 2 {
		require.ErrorIs(t, await.Receive(t, "a wait ends", ended), ErrDeviceGone)
	}
	_, err = ch.Wait(context.Background())
	require.ErrorIs(t, err, ErrDeviceGone)
	_, err = ch.Poll()
	require.ErrorIs(t, err, ErrDeviceGone)
}

// The text of an explanation says what its index counts.
func TestExplanationSaysWhatItsIndexCounts(t *testing.T) {
	for of, want := range map[uint8]string{control.OfWQE: "qp 0x000102 wqe", control.OfReceive: "qp 0x000102 receive", control.OfCompletion: "cq 0x000102 cqe"} {
		x := Explanation{Code: "c", Number: 0x102, Index: 16, Of: indexed(of), Text: "text"}
		require.Equal(t, "c: "+want+" 16: text", x.String())
		require.Contains(t, x.LogValue().String(), indexed(of)+"=16")
	}
}
