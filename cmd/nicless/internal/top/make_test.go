//go:build linux && (amd64 || arm64)

package top

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/nicless/nicless/cmd/nicless/internal/latency"
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/state"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// This file makes the recording of the tests anew (go test -update): two programs, of which one writes to the
// other, sends more than it has receives for, and has a queue in error. Their names are hostile.

var (
	began  = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	writer = "put\x1b[31mred"
	server = "サーバー\u202e"
)

// recording is the file that most tests play.
const recording = "testdata/two_programs.jsonl"

func makeRecording(t *testing.T) {
	f, err := os.Create(recording)
	require.NoError(t, err)
	out := json.NewEncoder(f)
	put := func(l recordedLine) { require.NoError(t, out.Encode(l)) }
	for _, r := range []state.Ring{sendRing(t), receiveRing(), cqRing()} {
		put(recordedLine{Ring: &r})
	}
	put(recordedLine{Latency: &latency.Sample{Queue: 0x51, Latencies: latencies()}})
	put(recordedLine{Links: &Links{Up: 2, Down: 1}})
	for second := range 3 {
		put(recordedLine{moment: moment{Snapshot: snapshotAt(uint64(second))}})
	}
	const gone = "connection refused"
	put(recordedLine{moment: moment{Error: gone}})
	put(recordedLine{moment: moment{Error: gone}})
	s := snapshotAt(5)
	s.Device.PID, s.Device.Started = 901, began.Add(4*time.Second) // an engine that was started anew
	put(recordedLine{moment: moment{Snapshot: s}})
	require.NoError(t, f.Close())
}

func latencies() (list []time.Duration) {
	for i := range 64 {
		list = append(list, time.Duration(1500+i*i*4))
	}
	return append(list[:63], 48*time.Microsecond)
}

func snapshotAt(second uint64) *state.Snapshot {
	ns := (1000 + second) * 1e9
	done := 1_000_000 + 250_000*second
	counts := state.Counts{WQEs: done, Bytes: 4096 * done, CQEs: done, Failed: 1, Explained: 3}
	refused := state.Error{Time: began.Add(-time.Minute), Code: "key-range", Queue: 0x53, Index: 7,
		Text: "8 bytes at 0x7f00 reach past the end of rkey 0x51f2a3"}
	return &state.Snapshot{
		Taken: began.Add(time.Duration(second) * time.Second),
		Device: state.Device{GUID: "0002c90300001234", Name: "nicless0", PID: 900, Started: began.Add(-time.Hour),
			Sees: state.SeesAll, Clients: 2, Queues: 4, CQs: 2, SRQs: 1, Watches: 1},
		Threads: []state.Thread{
			{Number: 0, Time: ns, Busy: 730e6 * second, Ran: ns, Waited: 1 + 21e6*second, Clients: 1, Queues: 3, Warm: 2,
				Stalled: 1},
			{Number: 1, Time: ns, Busy: 1e6 * second, Ran: ns, Waited: 1, Clients: 1, Queues: 1, Asleep: true},
		},
		Clients: []state.Client{
			{Number: 1, PID: 4711, UID: 1000, Program: writer, Name: "put", Queues: 3, CQs: 1, MRs: 5, PDs: 1,
				Memory: 1 << 24, Waiting: 1, Counts: counts, Errors: []state.Error{refused}},
			{Number: 2, PID: 4712, UID: 1000, Program: server, Name: "server", Thread: 1, Queues: 1, CQs: 1, SRQs: 1,
				MRs: 2, PDs: 1, Memory: 1 << 20, Linked: 1, Counts: state.Counts{Receives: 10 * second}},
		},
		Queues: []state.Queue{
			{Number: 0x51, Client: 1, Time: ns, Transport: "RC", State: "RTS", Peer: 0x61, SendCQ: 3, RecvCQ: 3, SendSize: 64,
				Announced: 6, Done: 250_000*second + 40, WQEs: 250_000 * second,
				Bytes: 4096 * 250_000 * second, RecvSize: 16, Posted: 5, Consumed: 3},
			{Number: 0x52, Client: 1, Time: ns, Transport: "UD", State: "RTS", SendCQ: 3, RecvCQ: 3, SendSize: 128, Announced: 9,
				Done: 12, Bytes: 480, RecvSize: 16, Posted: 16, Wait: "no receive is posted at queue 0x61", WaitTime: 1_250_000_000},
			{Number: 0x53, Client: 1, Time: ns, Transport: "RC", State: "ERR", Peer: 0x99, SendCQ: 3, RecvCQ: 3, SendSize: 32,
				Announced: 4, Done: 8, Failed: true},
			{Number: 0x61, Client: 2, Time: ns, Transport: "RC", State: "RTS", Peer: 0x51, Linked: true, Port: 1, SendCQ: 4,
				RecvCQ: 4, SRQ: 9, SendSize: 64, Done: 20 * second, WQEs: 20 * second,
				Bytes: 160 * second, Consumed: 10 * second},
		},
		CQs: []state.CQ{
			{Number: 3, Client: 1, Size: 32, EntrySize: 64, Unpolled: 4, Written: done, Queues: 3, Armed: true},
			{Number: 4, Client: 2, Size: 1024, EntrySize: 64, Written: 30 * second, Queues: 1, Overrun: true},
		},
		SRQs: []state.SRQ{{Number: 9, Client: 2, Size: 256, Posted: 200, Consumed: 10 * second, Queues: 1}},
	}
}

// sendRing has WQEs of one and of two blocks: 38 blocks are done, 6 wait.
func sendRing(t *testing.T) state.Ring {
	const size = 64
	b := make([]byte, size*wqe.BlockSize)
	index := uint16(0)
	for index < 46 {
		w := wqe.Start(b, index)
		w.Raddr(wqe.Raddr{Addr: 0x7f0000001000 + uint64(index)*64, RKey: 0x51f2a3})
		if index%6 == 4 { // 80 bytes inline: 2 blocks
			w.Inline([]byte("80 bytes of payload in the WQE itself, which therefore needs two blocks of 64 ..."[:80]))
		} else {
			w.Data(wqe.Data{ByteCount: 4096, LKey: 0x1200, Addr: 0x560000002000})
		}
		n, err := w.Finish(wqe.Ctrl{Opcode: wqe.OpRDMAWrite, Index: index, QPN: 0x51, Flags: wqe.CEAlways})
		require.NoError(t, err)
		index += uint16(n)
	}
	return state.Ring{Queue: 0x51, Of: state.SendRing, Size: size, Entry: wqe.BlockSize, Producer: uint64(index),
		Consumer: uint64(index) - 6, Bytes: b}
}

func receiveRing() state.Ring {
	const size, stride = 16, 16
	b := make([]byte, size*stride)
	for i := range size {
		d := wqe.Data{ByteCount: 256, LKey: 0x1300, Addr: 0x560000010000 + uint64(i)*256}
		d.Put((*[wqe.DataSize]byte)(b[i*stride:]))
	}
	return state.Ring{Queue: 0x51, Of: state.ReceiveRing, Size: size, Entry: stride, Producer: 8, Consumer: 3, Bytes: b}
}

// cqRing has a completion that failed among those that are not polled.
func cqRing() state.Ring {
	const size = 32
	b := make([]byte, size*cqe.Size)
	for i := range uint16(20) {
		at := (*[cqe.Size]byte)(b[int(i)*cqe.Size:])
		if i == 17 {
			cqe.PutErr(at, 0x53, 0, uint8(wqe.OpRDMAWrite), 7, cqe.RemoteAccess, 0x88, 0)
			continue
		}
		c := cqe.CQE{QPN: 0x51, Counter: i, WQEOpcode: uint8(wqe.OpRDMAWrite), ByteCount: 4096,
			OpOwn: cqe.MakeOpOwn(cqe.Req, cqe.FormatPlain, false, 0)}
		c.Put(at)
	}
	return state.Ring{Queue: 3, Of: state.CQRing, Size: size, Entry: cqe.Size, Producer: 20, Consumer: 16, Bytes: b}
}
