package lines

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/nicless/nicless/internal/tracetest"
	"github.com/nicless/nicless/model"
	"github.com/nicless/nicless/model/traffic"
	"github.com/nicless/nicless/trace"
	"github.com/stretchr/testify/require"
)

func made(t *testing.T, events []trace.Event) (model.Trace, bool) {
	m := New()
	for i := range events {
		require.NoError(t, m.Event(&events[i], tracetest.Clock))
	}
	return m.Trace()
}

// requireValid requires that model.ReadTrace reads what model.WriteTrace writes of a trace.
func requireValid(t *testing.T, x model.Trace) {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, model.WriteTrace(&b, x))
	back, err := model.ReadTrace(&b)
	require.NoError(t, err)
	require.Equal(t, len(x.Accesses), len(back.Accesses))
}

func TestSample(t *testing.T) {
	x, full := made(t, tracetest.Sample(t))
	require.False(t, full)
	requireValid(t, x)
	cqes, blocks := 0, 0
	for _, a := range x.Accesses {
		require.NotContains(t, a.Line.Region, "56", "its peer is on another device")
		if a.Who == model.Dev && a.Op == model.Store && a.Kind == model.CQE {
			cqes++
		}
		if a.Who == model.Host && a.Op == model.Store && a.Kind == model.WQE {
			blocks += a.N
		}
	}
	require.Equal(t, 36, cqes)
	require.Equal(t, 46+2+2, blocks, "each block is posted once")
}

// what returns the accesses of a request, in order, without what a trace of events does not tell: what
// programs do with payload, looks in vain, and which address a line has.
func what(x model.Trace, req int) (list []string) {
	for _, a := range x.Accesses {
		inVain := a.Why == model.Poll && len(a.After) == 0
		ofProgram := a.Kind == model.Payload && a.Who != model.Dev
		if a.Req == req && !inVain && !ofProgram {
			list = append(list, fmt.Sprintf("%v %v %v %v x%d", a.Who, a.Op, a.Kind, a.Why, a.N))
		}
	}
	return list
}

// The accesses are those of package model/traffic, which tests compare with the accesses of the engine.
func TestAsTraffic(t *testing.T) {
	for _, c := range []struct {
		op, wqe  string
		bytes    int
		inline   bool
		sges     int
		done     string
		received string
	}{
		{"write", "write_signaled", 128, false, 1, "req_write", ""},
		{"write", "write_inline_12", 12, true, 1, "req_write", ""},
		{"fetch-add", "atomic_fa_1", 8, false, 1, "req_atomic_fa", ""},
		{"cmp-swap", "atomic_cs", 8, false, 1, "req_atomic_cs", ""},
		{"send-imm", "send_imm", 10, false, 1, "req_send_imm", "resp_send_imm"},
		{"write-imm", "write_imm", 4096, false, 1, "req_write_imm", "resp_write_imm"},
	} {
		x := tracetest.New(t)
		x.Queue(0x51, 1, 0x52, trace.RC, 0)
		x.Queue(0x52, 1, 0x51, trace.RC, 0)
		for range 3 {
			x.Do(0x51, c.wqe, uint64(c.bytes), c.done, 0x52, c.received)
		}
		got, _ := made(t, x.Events)
		requireValid(t, got)
		want, err := traffic.Synth(c.op, c.bytes, traffic.Form{Inline: c.inline, SGEs: c.sges, Requests: 6, Ring: 64})
		require.NoError(t, err)
		a, b := what(got, 2), what(want, 4)
		slices.Sort(a)
		slices.Sort(b)
		require.Equal(t, b, a, "%s", c.op)
	}
}

// The ring of a queue is used again, and so are the lines of memory.
func TestLines(t *testing.T) {
	x := tracetest.New(t)
	x.Queue(0x51, 1, 0x52, trace.RC, 0)
	for range 65 {
		x.Do(0x51, "write_signaled", 128, "req_write", 0, "")
	}
	got, _ := made(t, x.Events)
	var rings, payload []string
	for _, a := range got.Accesses {
		if a.Who == model.Host && a.Op == model.Store && a.Kind == model.WQE {
			rings = append(rings, a.Line.String())
		}
		if a.Kind == model.Payload {
			payload = append(payload, a.String()[len(fmt.Sprint(a.Seq)):])
		}
	}
	require.Len(t, rings, 65)
	require.Equal(t, []string{"sq.51:0", "sq.51:63", "sq.51:0"}, []string{rings[0], rings[63], rings[64]})
	slices.Sort(payload)
	require.Equal(t, []string{" dev load payload tx:1 stream x2", " dev store payload rx:0 stream x2"}, slices.Compact(payload))
}

// A trace that is too long for the form has whole doorbells.
func TestFull(t *testing.T) {
	x := tracetest.New(t)
	x.Queue(0x51, 1, 0x52, trace.RC, 0)
	m := New()
	e := x.Events[0]
	require.NoError(t, m.Event(&e, tracetest.Clock))
	one := tracetest.New(t)
	for range 64 {
		one.Do(0x51, "write_signaled", 128, "req_write", 0, "")
	}
	for lap := range uint16(1000) {
		for _, e := range one.Events {
			e.Data = bytes.Clone(e.Data)
			switch e.Kind {
			case trace.KindCQE:
				advance(e.Data[60:], lap*64)
			case trace.KindFetch:
				advance(e.Data[1:], lap*64)
			}
			e.Index += lap * 64 // of a CQE it does not count
			require.NoError(t, m.Event(&e, tracetest.Clock))
		}
	}
	got, full := m.Trace()
	require.True(t, full)
	requireValid(t, got)
	require.Greater(t, len(got.Accesses), MostAccesses-100)
	last := got.Accesses[len(got.Accesses)-1]
	require.Equal(t, model.CI, last.Kind, "the last access of a request")

	// So has one with too much payload.
	y := tracetest.New(t)
	y.Queue(0x51, 1, 0x52, trace.RC, 0)
	for range 100 {
		y.Do(0x51, "read", 1<<20, "req_read", 0, "")
	}
	got, full = made(t, y.Events)
	require.True(t, full)
	requireValid(t, got)
	require.Equal(t, 63, got.Accesses[len(got.Accesses)-1].Req, "64 of them have 2^21 lines and some more")
}

// advance adds to a big-endian number.
func advance(b []byte, n uint16) { binary.BigEndian.PutUint16(b, binary.BigEndian.Uint16(b)+n) }

func FuzzMaker(f *testing.F) {
	for _, e := range tracetest.Sample(f) {
		f.Add(uint8(e.Kind), e.Queue, e.Index, e.Count, e.Value, e.Data, uint32(64))
	}
	f.Fuzz(func(t *testing.T, kind uint8, queue uint32, index, count uint16, value uint64, data []byte, blocks uint32) {
		info := trace.QueueInfo{Peer: queue, SendBlocks: blocks, RecvEntries: blocks}
		events := []trace.Event{{Kind: trace.KindQueue, Queue: queue, Count: uint16(trace.RC), Data: info.Append(nil)}}
		for _, k := range []trace.Kind{trace.KindDoorbell, trace.KindFetch, trace.Kind(kind), trace.KindExecute} {
			events = append(events, trace.Event{Kind: k, Queue: queue, Index: index, Count: min(count, 100), Value: value, Data: data})
		}
		x, _ := made(t, events)
		requireValid(t, x)
	})
}
