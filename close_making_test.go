package nicless

import (
	"bytes"
	"os"
	"sync"
	"testing"

	"github.com/nicless/nicless/internal/control"
	"github.com/stretchr/testify/require"
)

// An answerer is a device. When it has answered a request whose op is equal to its field on,
// it calls the function in its field after.
type answerer struct {
	device
	on    control.Op
	after func()
}

func (d *answerer) Call(op control.Op, req, ans control.Message) (control.Reply, error) {
	r, err := d.device.Call(op, req, ans)
	if op == d.on {
		d.after()
	}
	return r, err
}

// A Close can come right after the device has made or changed an object. It does not disturb
// the rest of the work on this side.
func TestCloseBeforeTheEndOfCreate(t *testing.T) {
	for _, on := range []control.Op{control.OpCreateCQ, control.OpCreateQP, control.OpCreateSRQ, control.OpRegMR, control.OpReregMR} {
		dev, err := openEmbedded(Config{})
		require.NoError(t, err)
		d := &answerer{device: dev, on: on}
		c, err := newContext(d, nil)
		require.NoError(t, err)
		d.after = func() { require.NoError(t, c.Close()) }
		pd, err := c.AllocPD()
		require.NoError(t, err)
		cq, err := c.CreateCQ(CQConfig{PollOnly: true})
		require.NoError(t, err)
		switch on {
		case control.OpCreateQP:
			_, err = pd.CreateQP(QPConfig{SendCQ: cq, BlueFlame: true})
			require.ErrorIs(t, err, ErrClosed) // the error of the change to INIT
		case control.OpCreateSRQ:
			_, err = pd.CreateSRQ(SRQConfig{})
			require.NoError(t, err)
		case control.OpRegMR:
			before := mappings(t)
			_, err := pd.RegisterMemory(4096, FullAccess)
			require.ErrorIs(t, err, ErrClosed)
			require.LessOrEqual(t, mappings(t), before)
		case control.OpReregMR:
			mr, err := pd.RegisterMemory(4096, FullAccess)
			require.NoError(t, err)
			require.NoError(t, mr.Reregister(nil, 64, 64, FullAccess))
			require.Nil(t, mr.Bytes())
		}
		require.ErrorIs(t, c.err(), ErrClosed)
		page, at := c.register()
		require.Zero(t, page)
		require.NotEmpty(t, c.registers[at:])
		_, _, register := c.blueFlame(0)
		require.NotEmpty(t, register)
		_, err = c.Status()
		require.ErrorIs(t, err, ErrClosed)
	}
}

// mappings counts the mappings of registered memory in this process.
func mappings(t *testing.T) int {
	b, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	return bytes.Count(b, []byte("nicless:register memory"))
}

// Goroutines that make objects during a Close get ErrClosed.
func TestCloseBesideMaking(t *testing.T) {
	for range 20 {
		c, err := Open(Config{})
		require.NoError(t, err)
		pd, err := c.AllocPD()
		require.NoError(t, err)
		cq, err := c.CreateCQ(CQConfig{PollOnly: true})
		require.NoError(t, err)
		makers := []func() (interface{ Close() error }, error){
			func() (interface{ Close() error }, error) { return pd.CreateQP(QPConfig{SendCQ: cq}) },
			func() (interface{ Close() error }, error) { return pd.CreateQP(QPConfig{SendCQ: cq, BlueFlame: true}) },
			func() (interface{ Close() error }, error) { return c.CreateCQ(CQConfig{PollOnly: true}) },
			func() (interface{ Close() error }, error) { return pd.RegisterMemory(4096, FullAccess) },
		}
		var all, first sync.WaitGroup
		first.Add(len(makers))
		failed := make(chan error, len(makers))
		for _, create := range makers {
			all.Go(func() {
				for i := 0; ; i++ {
					made, err := create()
					if err == nil {
						err = made.Close()
					}
					if i == 0 {
						first.Done()
					}
					if err != nil {
						failed <- err
						return
					}
				}
			})
		}
		first.Wait()
		require.NoError(t, c.Close())
		all.Wait()
		close(failed)
		for err := range failed {
			require.ErrorIs(t, err, ErrClosed)
		}
	}
}
