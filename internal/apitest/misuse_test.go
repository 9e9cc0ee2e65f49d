package apitest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/accel"
	"github.com/nicless/nicless/hostpath"
	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/require"
)

// A call is one method of one object, with the arguments that it was given.
type call struct {
	name    string
	results []reflect.Value
	panics  any
}

// err is the error that a call has returned, if it returns one.
func (c *call) err() (err error, returns bool) {
	if len(c.results) == 0 {
		return nil, false
	}
	last := c.results[len(c.results)-1]
	if last.Type() != reflect.TypeFor[error]() {
		return nil, false
	}
	err, _ = last.Interface().(error)
	return err, true
}

// callAll calls all exported methods of an object one after another, Close last. The
// arguments are zero values, except for contexts. A panic is recovered, as a caller could
// do. A fault that recover does not catch ends the test.
func callAll(t *testing.T, object any) (calls []*call) {
	t.Helper()
	v := reflect.ValueOf(object)
	names := make([]string, 0, v.NumMethod())
	for i := range v.NumMethod() {
		names = append(names, v.Type().Method(i).Name)
	}
	slices.SortStableFunc(names, func(a, b string) int { return strings.Compare(b, a) })
	slices.SortStableFunc(names, func(a, b string) int {
		return strings.Compare(strings.ReplaceAll(a, "Close", "~"), strings.ReplaceAll(b, "Close", "~"))
	})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, name := range names {
		m := v.MethodByName(name)
		var args []reflect.Value
		for i := range m.Type().NumIn() {
			in := m.Type().In(i)
			switch {
			case m.Type().IsVariadic() && i == m.Type().NumIn()-1:
			case in == reflect.TypeFor[context.Context]():
				args = append(args, reflect.ValueOf(ended))
			default:
				args = append(args, reflect.Zero(in))
			}
		}
		c := &call{name: fmt.Sprintf("%T.%s", object, name)}
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer func() { c.panics = recover() }()
			c.results = m.Call(args)
		}()
		await.Receive(t, c.name+" returns", done)
		calls = append(calls, c)
	}
	return calls
}

// ordinary checks that the value of a panic is a runtime error of Go, an error with a text, or
// a text like those of this package.
func ordinary(t *testing.T, c *call) {
	t.Helper()
	switch p := c.panics.(type) {
	case nil:
	case runtime.Error:
	case error:
		require.NotEmpty(t, p.Error(), c.name)
	case string:
		require.Contains(t, p, ": ", c.name)
	default:
		t.Errorf("%s panics with a %T: %v", c.name, p, p)
	}
}

// Methods of zero objects and nil objects return an error or panic in an ordinary way.
func TestZeroObjects(t *testing.T) {
	for _, o := range []any{
		new(nicless.Context), new(nicless.PD), new(nicless.MR), new(nicless.CQ), new(nicless.QP), new(nicless.SRQ), new(nicless.Channel),
		new(nicless.Window), new(nicless.ListKey), new(nicless.Attr), new(nicless.Descriptor), new(nicless.Explanation), new(nicless.Completion),
		new(nicless.Raw), new(nicless.RawCQ), new(nicless.SendWR), new(nicless.Event), new(nicless.Address), new(nicless.AttrMask), new(nicless.Flags),
		new(hostpath.SQ), new(hostpath.SharedSQ), new(hostpath.RQ), new(hostpath.SRQ), new(hostpath.CQ), new(hostpath.Table), new(hostpath.RoCE),
		new(accel.Device), new(accel.Stream), new(accel.Event), new(accel.Queue), new(accel.Buffer), new(accel.Thread), new(accel.Ref),
	} {
		for _, c := range callAll(t, o) {
			ordinary(t, c)
			if strings.Contains(c.name, "Close") && strings.HasPrefix(c.name, "*nicless.") {
				err, _ := c.err()
				require.ErrorIs(t, err, nicless.ErrClosed, c.name)
			}
		}
	}
	for _, o := range []any{
		(*nicless.Context)(nil), (*nicless.PD)(nil), (*nicless.MR)(nil), (*nicless.CQ)(nil), (*nicless.QP)(nil), (*nicless.SRQ)(nil),
		(*nicless.Channel)(nil), (*nicless.Window)(nil), (*nicless.ListKey)(nil),
	} {
		for _, c := range callAll(t, o) {
			ordinary(t, c)
		}
	}
}

// objects makes one of each kind.
func objects(t *testing.T) (ctx *nicless.Context, inOrderOfClosing []any) {
	t.Helper()
	ctx, err := nicless.Open(nicless.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = ctx.Close() })
	b := fill(t, ctx, nicless.CQConfig{}, nicless.QPConfig{})
	w, err := b.pd.AllocWindow(2)
	require.NoError(t, err)
	k, err := b.pd.CreateListKey(4)
	require.NoError(t, err)
	s, err := b.pd.CreateSRQ(nicless.SRQConfig{})
	require.NoError(t, err)
	ch, err := ctx.CreateChannel()
	require.NoError(t, err)
	return ctx, []any{w, k, s, b.a, b.b, b.cq, ch, b.mr, b.pd, ctx}
}

// Methods of live objects, called with zero arguments, return or panic in an ordinary way.
// Methods of closed objects do so too, and return an error if they have an error result.
func TestMisuse(t *testing.T) {
	// These methods need not return an error for a closed object. A second Close, for
	// instance, does nothing.
	silent := []string{"Close", "Reregister"}
	for _, first := range []string{"each", "context"} {
		t.Run(first, func(t *testing.T) {
			ctx, list := objects(t)
			if first == "context" {
				require.NoError(t, ctx.Close())
			}
			for _, o := range list {
				for _, c := range callAll(t, o) { // ends with Close
					ordinary(t, c)
				}
			}
			for _, o := range list {
				for _, c := range callAll(t, o) {
					ordinary(t, c)
					_, method, _ := strings.Cut(strings.TrimPrefix(c.name, "*nicless."), ".")
					if err, returns := c.err(); returns && c.panics == nil && !slices.Contains(silent, method) {
						require.Error(t, err, c.name)
					}
				}
			}
		})
	}
}

// An access to closed memory panics in the caller. An access through a slice that was taken
// before finds zeros. Neither is a fault, which would end the program.
func TestMemoryAfterClose(t *testing.T) {
	for _, how := range []string{"memory", "context"} {
		ctx, err := nicless.Open(nicless.Config{})
		require.NoError(t, err)
		defer ctx.Close()
		pd, err := ctx.AllocPD()
		require.NoError(t, err)
		mr, err := pd.RegisterMemory(4096, nicless.FullAccess)
		require.NoError(t, err)
		mr.Store64(8, 5)
		require.Equal(t, uint64(5), mr.Load64(8))
		late := mr.Bytes()
		cq, err := ctx.CreateCQ(nicless.CQConfig{})
		require.NoError(t, err)
		ring := cq.Ring()
		if how == "memory" {
			require.NoError(t, mr.Close())
		} else {
			require.NoError(t, ctx.Close())
		}
		for _, f := range []func(){
			func() { mr.Load64(8) }, func() { mr.Store64(8, 1) }, func() { mr.Add64(8, 1) }, func() { mr.CompareAndSwap64(8, 1, 2) },
			func() { mr.Load32(8) }, func() { mr.Store32(8, 1) }, func() { mr.Add32(8, 1) }, func() { mr.CompareAndSwap32(8, 1, 2) },
			func() { mr.Old32(8) },
		} {
			require.Panics(t, f)
		}
		late[8]++ // as a goroutine might do that took the slice before Close
		ring[0]++
		runtime.KeepAlive(mr)
		runtime.KeepAlive(cq)
	}
}

// The methods for words of memory give the same results as sync/atomic.
func TestWords(t *testing.T) {
	b := open(t, nicless.CQConfig{}, nicless.QPConfig{})
	m := b.mr
	require.Equal(t, uint64(7), m.Add64(16, 7))
	require.False(t, m.CompareAndSwap64(16, 6, 9))
	require.True(t, m.CompareAndSwap64(16, 7, 9))
	require.Equal(t, uint64(8), m.Add64(16, ^uint64(0)))
	m.Store32(20, 0x01020304)
	require.Equal(t, uint64(0x01020304_00000008), m.Load64(16))
	require.Equal(t, []byte{8, 0, 0, 0, 4, 3, 2, 1}, m.Bytes()[16:24], "the order of the host")
	require.Equal(t, uint32(0x01020306), m.Add32(20, 2))
	require.False(t, m.CompareAndSwap32(20, 1, 2))
	require.True(t, m.CompareAndSwap32(20, 0x01020306, 2))
	require.Equal(t, uint32(2), m.Load32(20))
	require.Equal(t, uint32(8), m.Load32(16))
	for off, says := range map[int]string{-8: "-8", mrSize - 4: "65532", 4: "multiple of 8", 1 << 40: "1099511627776"} {
		func() {
			defer func() { require.Contains(t, recover(), says) }()
			m.Load64(off)
		}()
	}
}

// Closing the context while other goroutines post, poll and inspect ends their calls with
// errors.
func TestCloseBesideUse(t *testing.T) {
	for range 5 {
		ctx, err := nicless.Open(nicless.Config{})
		require.NoError(t, err)
		b := fill(t, ctx, nicless.CQConfig{PollOnly: true}, nicless.QPConfig{MaxSendWR: 2000})
		list := make([]nicless.SendWR, 1000) // many, so that posting them takes some time
		for i := range list {
			list[i] = nicless.SendWR{Op: nicless.Write, Data: make([]byte, 28), RemoteAddr: b.mr.Addr() + 64, RKey: b.mr.RKey()}
		}
		list[len(list)-1].Flags = nicless.Signaled
		var all sync.WaitGroup
		running := make(chan struct{}, 8)
		use := func(f func() error) {
			all.Go(func() {
				for i := range 1 << 40 {
					if err := f(); err != nil {
						running <- struct{}{}
						return
					}
					if i == 100 {
						running <- struct{}{}
					}
				}
			})
		}
		use(func() error {
			if _, err := b.a.PostSendList(list); err != nil && !errors.Is(err, nicless.ErrFull) {
				return err
			}
			return nil
		})
		use(func() error { _, err := b.cq.Poll(make([]nicless.Completion, 4)); return err })
		use(func() error { _, err := ctx.Status(); return err })
		use(func() (err error) {
			defer func() {
				if p := recover(); p != nil {
					err = fmt.Errorf("%v", p)
				}
			}()
			b.mr.Add64(0, 1)
			return nil
		})
		for range 4 {
			<-running
		}
		require.NoError(t, ctx.Close())
		all.Wait()
	}
}

// A dropped Context is closed, and the log says so. A Context is not closed while the program
// refers to one of its objects.
func TestDroppedContext(t *testing.T) {
	before := engines()
	var said lockedBuffer
	log := slog.New(slog.NewTextHandler(&said, nil))
	qp := func() *nicless.QP {
		ctx, err := nicless.Open(nicless.Config{Log: log})
		require.NoError(t, err)
		b := fill(t, ctx, nicless.CQConfig{}, nicless.QPConfig{})
		return b.a
	}()
	for range 5 {
		runtime.GC()
	}
	require.NoError(t, qp.PostSend(&nop))
	require.NotContains(t, said.String(), "dropped")
	require.Equal(t, before+1, engines())
	qp = nil
	await.Until(t, "the log says that the Context was dropped", func() bool {
		runtime.GC()
		return strings.Contains(said.String(), "a Context was dropped without Close")
	})
	await.Until(t, "the engine of the dropped Context ends", func() bool { return engines() == before })
}

// engines counts goroutines that run an engine.
func engines() int {
	b := make([]byte, 1<<20)
	return strings.Count(string(b[:runtime.Stack(b, true)]), "(*Engine).Run(")
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
