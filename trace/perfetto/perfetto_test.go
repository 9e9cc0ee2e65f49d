package perfetto

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/nicless/nicless/internal/tracetest"
	"github.com/nicless/nicless/trace"
	"github.com/stretchr/testify/require"
)

// A fieldType is the type of a field in Perfetto's .proto files.
type fieldType string

// schema has the messages that a Writer uses, as they are in protos/perfetto/trace of Perfetto: name and
// type of each field. A type that is a key of schema is a message.
var schema = map[fieldType]map[uint64]struct {
	name string
	typ  fieldType
}{
	"Trace": {1: {"packet", "TracePacket"}},
	"TracePacket": {6: {"clock_snapshot", "ClockSnapshot"}, 8: {"timestamp", "uint64"},
		10: {"trusted_packet_sequence_id", "uint32"}, 11: {"track_event", "TrackEvent"},
		13: {"sequence_flags", "uint32"}, 60: {"track_descriptor", "TrackDescriptor"}},
	"ClockSnapshot": {1: {"clocks", "Clock"}},
	"Clock":         {1: {"clock_id", "uint32"}, 2: {"timestamp", "uint64"}},
	"TrackDescriptor": {1: {"uuid", "uint64"}, 2: {"name", "string"}, 3: {"process", "ProcessDescriptor"},
		5: {"parent_uuid", "uint64"}},
	"ProcessDescriptor": {1: {"pid", "int32"}, 6: {"process_name", "string"}},
	"TrackEvent": {4: {"debug_annotations", "DebugAnnotation"}, 9: {"type", "enum"}, 11: {"track_uuid", "uint64"},
		22: {"categories", "string"}, 23: {"name", "string"}, 47: {"flow_ids", "fixed64"}},
	"DebugAnnotation": {3: {"uint_value", "uint64"}, 6: {"string_value", "string"}, 10: {"name", "string"}},
}

// decode returns the fields of a message by their names: uint64, string, or map.
func decode(b []byte, typ fieldType) (fields map[string][]any, err error) {
	fields = map[string][]any{}
	for len(b) > 0 {
		key, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, fmt.Errorf("%s: key", typ)
		}
		b = b[n:]
		f, ok := schema[typ][key>>3]
		if !ok {
			return nil, fmt.Errorf("%s has no field %d", typ, key>>3)
		}
		var v any
		wire := key & 7
		most, number := map[fieldType]uint64{"uint64": 1<<64 - 1, "uint32": 1<<32 - 1, "int32": 1<<31 - 1, "enum": 3}[f.typ]
		switch {
		case wire == 0 && number:
			u, n := binary.Uvarint(b)
			if n <= 0 || u > most {
				return nil, fmt.Errorf("%s.%s: %d", typ, f.name, u)
			}
			v, b = u, b[n:]
		case wire == 1 && f.typ == "fixed64" && len(b) >= 8:
			v, b = binary.LittleEndian.Uint64(b), b[8:]
		case wire == 2:
			size, n := binary.Uvarint(b)
			if n <= 0 || size > uint64(len(b)-n) {
				return nil, fmt.Errorf("%s.%s: length", typ, f.name)
			}
			part := b[n : n+int(size)]
			b = b[n+int(size):]
			switch {
			case schema[f.typ] != nil:
				if v, err = decode(part, f.typ); err != nil {
					return nil, fmt.Errorf("%s.%w", typ, err)
				}
			case f.typ == "string" && utf8.Valid(part):
				v = string(part)
			default:
				return nil, fmt.Errorf("%s.%s: bytes for %s", typ, f.name, f.typ)
			}
		default:
			return nil, fmt.Errorf("%s.%s: wire type %d for %s", typ, f.name, wire, f.typ)
		}
		fields[f.name] = append(fields[f.name], v)
	}
	return fields, nil
}

func written(t *testing.T, events []trace.Event) []byte {
	var b strings.Builder
	x := New(&b)
	for i := range events {
		require.NoError(t, x.Event(&events[i], tracetest.Clock))
	}
	return []byte(b.String())
}

// A shown slice or instant, as a viewer would show it.
type shown struct {
	track    string // names from the process on
	name     string
	from, to uint64 // nanoseconds after the clock's moment
	flows    []uint64
	texts    map[string]any
	depth    int
}

// view reads a trace as a viewer does: tracks are described before their events, the events of a track are
// put in the order of their times, and slices nest.
func view(t *testing.T, b []byte) (list []*shown, ended bool) {
	t.Helper()
	top, err := decode(b, "Trace")
	require.NoError(t, err)
	tracks := map[uint64]string{}
	type timed struct {
		time  uint64
		event map[string][]any
	}
	events := map[uint64][]timed{}
	for i, p := range top["packet"] {
		p := p.(map[string][]any)
		require.Equal(t, []any{uint64(1)}, p["trusted_packet_sequence_id"])
		require.Equal(t, i == 0, p["clock_snapshot"] != nil)
		require.Equal(t, i == 0, p["sequence_flags"] != nil)
		if d := p["track_descriptor"]; d != nil {
			d := d[0].(map[string][]any)
			id, name := d["uuid"][0].(uint64), d["name"][0].(string)
			require.NotContains(t, tracks, id)
			if parent := d["parent_uuid"]; parent != nil {
				require.Contains(t, tracks, parent[0])
				name = tracks[parent[0].(uint64)] + "/" + name
			}
			tracks[id] = name
		}
		if e := p["track_event"]; e != nil {
			e := e[0].(map[string][]any)
			id := e["track_uuid"][0].(uint64)
			require.Contains(t, tracks, id)
			events[id] = append(events[id], timed{p["timestamp"][0].(uint64) - uint64(tracetest.Clock.Unix), e})
		}
	}
	ended = true
	for _, id := range slices.Sorted(maps.Keys(events)) {
		of := events[id]
		slices.SortStableFunc(of, func(a, b timed) int { return int(int64(a.time) - int64(b.time)) })
		var open []*shown
		for _, e := range of {
			if e.event["type"][0] == uint64(sliceEnd) {
				require.NotEmpty(t, open, "%s at %d: an end without a begin", tracks[id], e.time)
				open[len(open)-1].to = e.time
				open = open[:len(open)-1]
				continue
			}
			s := &shown{track: tracks[id], name: e.event["name"][0].(string), from: e.time, to: e.time,
				texts: map[string]any{}, depth: len(open)}
			for _, f := range e.event["flow_ids"] {
				s.flows = append(s.flows, f.(uint64))
			}
			for _, a := range e.event["debug_annotations"] {
				a := a.(map[string][]any)
				s.texts[a["name"][0].(string)] = append(a["string_value"], a["uint_value"]...)[0]
			}
			list = append(list, s)
			if e.event["type"][0] == uint64(sliceBegin) {
				require.Empty(t, open, "slices of WQEs do not overlap on one track")
				open = append(open, s)
			}
		}
		ended = ended && len(open) == 0
	}
	return list, ended
}

func find(list []*shown, track, name string) (found []*shown) {
	for _, s := range list {
		if strings.HasSuffix(s.track, track) && s.name == name {
			found = append(found, s)
		}
	}
	slices.SortStableFunc(found, func(a, b *shown) int { return int(int64(a.from) - int64(b.from)) })
	return found
}

func TestSample(t *testing.T) {
	list, ended := view(t, written(t, tracetest.Sample(t)))
	require.True(t, ended, "all slices have ended")

	writes := find(list, "put/qp 0x51 RC/WQEs", "RDMA_WRITE")
	require.Len(t, writes, 11)
	w := writes[0]
	require.Equal(t, []uint64{1100, 1300}, []uint64{w.from, w.to}, "from the doorbell to the CQE")
	require.Contains(t, w.texts["request"], "rkey 0x1a201")
	bell := find(list, "qp 0x51 RC", "doorbell")[0]
	require.EqualValues(t, 1100, bell.from)
	require.Len(t, bell.flows, 1)
	require.Len(t, w.flows, 2)
	require.Equal(t, bell.flows[0], w.flows[0], "an arrow from the doorbell")
	done := find(list, "put/cq 0x3", "RDMA_WRITE")[0]
	require.Equal(t, w.flows[1:], done.flows, "an arrow to the CQE")

	// A SEND has arrows to the CQE of the receive, to the receive of the peer, and to its own CQE.
	sends := find(list, "put/qp 0x51 RC/WQEs", "SEND")
	receives := find(list, "qp 0x52 RC", "receive")
	ends := find(list, "put/cq 0x3", "SEND") // those of SEND_IMM and SEND_INVAL have this name, too
	require.Len(t, sends, 3)
	for i, at := range []struct{ receive, end int }{{0, 0}, {1, 1}, {5, 6}} {
		flow := sends[i].flows[1]
		require.Equal(t, []uint64{flow}, receives[at.receive].flows)
		require.Equal(t, []uint64{flow}, ends[at.end].flows)
	}
	require.Empty(t, receives[6].flows, "a receive that is flushed")
	require.Len(t, find(list, "qp 0x51 RC/WQEs", "waits: no receive"), 1)
	require.Equal(t, 1, find(list, "qp 0x51 RC/WQEs", "waits: no receive")[0].depth, "in its WQE")
	require.EqualValues(t, 1024, find(list, "qp 0x51 RC/WQEs", "goes on")[0].texts["bytes so far"])

	// An unsignaled WQE ends when it is executed; the others of its doorbell end with their CQEs.
	unsignaled := find(list, "qp 0x51 RC/WQEs", "RDMA_WRITE")[1]
	require.Equal(t, []uint64{6800, 7200}, []uint64{unsignaled.from, unsignaled.to})
	require.Len(t, find(list, "put/cq 0x3", "RDMA_WRITE"), 11, "three of a series, two of WRITE with immediate")

	// The peer is on another device: the WQE ends with its CQE, and there are packets.
	require.Len(t, find(list, "put/qp 0x56 RC/WQEs", "RDMA_WRITE"), 1)
	require.Len(t, find(list, "port 1", "sent RC_WRITE_ONLY"), 1)

	failed := find(list, "qp 0x51 RC/WQEs", "failed: REM_ACCESS_ERR")
	require.Len(t, failed, 1)
	require.Equal(t, "remote access error", failed[0].texts["syndrome"])
	require.Equal(t, `rkey 0x1a201 has no right \x1b[31mto write`, find(list, "qp 0x51 RC", "explained: rkey-rights")[0].texts["text"])
	require.Len(t, find(list, "qp 0x51 RC", "RTS -> ERR"), 1)
	require.EqualValues(t, 17, find(list, "device", "events lost")[0].texts["events"])
	require.Len(t, find(list, `\x1b[2Jgone\n\u202e"\xff`, "key 0x1a201 made"), 1, "names are those of others")
}

// The completion of a datagram says who has sent it.
func TestDatagram(t *testing.T) {
	x := tracetest.New(t)
	x.Queue(0x55, 1, 0, trace.UD, 0)
	x.Queue(0x1, 1, 0, trace.UD, 0)
	x.Do(0x55, "ud_send_imm_inline", 24, "req_send_imm", 0x1, "resp_ud_grh")
	for _, e := range x.Events {
		if e.Kind == trace.KindCQE && e.Queue == 4 {
			const flagsRQPN = 24
			binary.BigEndian.PutUint32(e.Data[flagsRQPN:], 0x55)
		}
	}
	list, _ := view(t, written(t, x.Events))
	require.Equal(t, find(list, "WQEs", "SEND_IMM")[0].flows[1:], find(list, "qp 0x1 UD", "receive")[0].flows)
}

// WQEs that overlap are on different tracks, also if a later one was announced before an earlier one ended.
func TestOverlap(t *testing.T) {
	x := tracetest.New(t)
	x.Queue(0x51, 1, 0x52, trace.RC, 1)
	var at []uint16
	for range 20 {
		at = append(at, x.Post(0x51, "write_signaled")[0])
	}
	for _, i := range at {
		x.CQE(3, 0x51, i, "req_write")
	}
	first := x.Post(0x51, "write_signaled")[0]
	x.CQE(3, 0x51, first, "req_write")
	list, ended := view(t, written(t, x.Events))
	require.True(t, ended)
	require.Len(t, find(list, "WQEs", "RDMA_WRITE"), 21)
}

// The device finds the same record in each visit until it has executed everything.
func TestDoorbellIsFoundAgain(t *testing.T) {
	x := tracetest.New(t)
	x.Queue(0x51, 1, 0x52, trace.RC, 0)
	x.Post(0x51, "write_signaled", "write_signaled")
	bell, fetch := x.Events[1], x.Events[2]
	x.Add(trace.Event{Kind: trace.KindExecute, Queue: 0x51, Index: 0, Count: 1})
	bell.Index, bell.Count = 1, 3 // two more
	x.Add(bell)
	fetch.Index, fetch.Count, fetch.Data = 1, 1, fetch.Data[64:]
	x.Add(fetch)
	x.CQE(3, 0x51, 1, "req_write")
	list, _ := view(t, written(t, x.Events))
	bells := find(list, "qp 0x51 RC", "doorbell")
	require.Len(t, bells, 2)
	require.EqualValues(t, 2, bells[1].texts["first block"])
	require.EqualValues(t, 2, bells[1].texts["blocks"])
	second := find(list, "WQEs", "RDMA_WRITE")[1]
	require.Equal(t, bells[0].from, second.from)
	require.Equal(t, bells[0].flows[0], second.flows[0])
}

// A device that works for days needs no more memory than for one WQE.
func TestMemoryIsBounded(t *testing.T) {
	x := New(discard{})
	for i := range 1 << 13 {
		s := tracetest.New(t)
		if i == 0 {
			s.Queue(0x51, 1, 0x52, trace.RC, 0)
		}
		index := uint16(i)
		b := make([]byte, 64)
		b[1], b[2], b[7], b[11] = byte(i>>8), byte(i), 1, 8
		s.Add(trace.Event{Kind: trace.KindDoorbell, Queue: 0x51, Index: index, Count: 1})
		s.Add(trace.Event{Kind: trace.KindFetch, Queue: 0x51, Index: index, Count: 1, Data: b})
		s.Add(trace.Event{Kind: trace.KindExecute, Queue: 0x51, Index: index, Count: 1})
		c := make([]byte, 64)
		c[59], c[60], c[61] = 0x51, byte(i>>8), byte(i)
		s.Add(trace.Event{Kind: trace.KindCQE, Queue: 3, Count: 1, Data: c})
		for _, e := range s.Events {
			e.Time += uint64(i) * 1000
			require.NoError(t, x.Event(&e, tracetest.Clock))
		}
		require.Zero(t, x.open)
		require.LessOrEqual(t, len(x.queues[0x51].lanes), 1)
		require.LessOrEqual(t, len(x.queues[0x51].bells), 2)
	}
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

func TestErrorOfWriter(t *testing.T) {
	full := errors.New("no space left on device")
	for i := range 40 {
		x := New(&writer{i, full})
		var err error
		for _, e := range tracetest.Sample(t) {
			if err = x.Event(&e, tracetest.Clock); err != nil {
				break
			}
		}
		require.ErrorIs(t, err, full)
	}
}

// A writer fails after some calls.
type writer struct {
	left int
	err  error
}

func (w *writer) Write(b []byte) (int, error) {
	if w.left == 0 {
		return 0, w.err
	}
	w.left--
	return len(b), nil
}

// Whatever events say, a Writer writes what the schema has.
func FuzzWriter(f *testing.F) {
	for _, e := range tracetest.Sample(f) {
		f.Add(uint8(e.Kind), e.Queue, e.Index, e.Count, e.Value, e.Data)
	}
	f.Fuzz(func(t *testing.T, kind uint8, queue uint32, index, count uint16, value uint64, data []byte) {
		var events []trace.Event
		for _, k := range []trace.Kind{trace.KindClient, trace.KindDoorbell, trace.KindFetch, trace.Kind(kind), trace.KindExecute} {
			events = append(events, trace.Event{Kind: k, Time: value, Queue: queue, Index: index, Count: min(count, 100), Value: value,
				Data: data})
		}
		_, err := decode(written(t, events), "Trace")
		require.NoError(t, err)
	})
}
