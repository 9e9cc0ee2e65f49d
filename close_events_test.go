package nicless

import (
	"os"
	"testing"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A teller is a device that sends an event about the work of its client as late as
// possible: just before the answer to the client's next OpOpenEvents.
type teller struct {
	t      *testing.T
	events []*os.File
	closed func()
}

func (d *teller) Call(op control.Op, _, ans control.Message) (r control.Reply, err error) {
	switch op {
	case control.OpHello:
		*ans.(*control.Welcome) = welcome
		r.UAR, err = shm.Heap(int(welcome.UARPages) * shm.PageSize)
		if err == nil {
			r.Status, err = shm.Heap(shm.PageSize)
		}
	case control.OpOpenEvents:
		var fds [2]int
		fds, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		require.NoError(d.t, err)
		require.NoError(d.t, unix.SetNonblock(fds[1], true))
		for _, old := range d.events {
			ev := control.Event{Kind: control.EventExplanation, Text: "the last word"}
			_, err = old.Write(control.Append(nil, op, control.FlagAnswer, 0, &ev))
			require.NoError(d.t, err)
			require.NoError(d.t, old.Close())
		}
		d.events = []*os.File{os.NewFile(uintptr(fds[0]), "ours")}
		r.Events = os.NewFile(uintptr(fds[1]), "theirs")
	}
	return r, err
}

func (d *teller) Done() <-chan struct{} { return nil }

func (d *teller) NewRegion(_ string, size int) (*shm.Region, uint32, error) {
	r, err := shm.Heap(size)
	return r, 1, err
}

func (d *teller) Close() error {
	d.closed()
	return d.events[0].Close()
}

// Close waits for the device's last events before it hangs up, and delivers them.
func TestCloseHearsTheLastWord(t *testing.T) {
	heard := ""
	d := &teller{t: t, closed: func() { require.Equal(t, "the last word", heard) }}
	c, err := newContext(d, nil)
	require.NoError(t, err)
	c.OnExplanation(func(x Explanation) { heard += x.Text })
	require.NoError(t, c.Close())

	d = &teller{t: t, closed: func() {}}
	c, err = newContext(d, nil)
	require.NoError(t, err)
	require.NoError(t, c.Close())
	ev, err := c.NextEvent(t.Context())
	require.NoError(t, err)
	require.Equal(t, "the last word", ev.Explanation.Text)
	_, err = c.NextEvent(t.Context())
	require.ErrorIs(t, err, ErrClosed)
}
