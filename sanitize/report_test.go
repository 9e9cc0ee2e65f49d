package sanitize

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestString(t *testing.T) {
	x := three(t, Options{Stack: func(p Post) []string {
		if p.Client != 3 || p.Queue != 0x53 || p.Of != Sends || p.Index != 0 {
			return nil
		}
		return []string{"put.go:12 main.put", "put.go:40 main.main\x1b[2J"}
	}})
	x.post(0x51, write(1, 0, 2, 0, 64))
	x.post(0x53, write(3, 0, 2, 32, 64))
	require.Equal(t, `==================
ERROR: nicless sanitizer: race: 32 bytes of the memory of pid 4712 (put) are accessed twice, at least once to write, with no order between the two
  Write of 64 bytes at 0x7f0200000020 by pid 4713 (put):
    qp 0x53, wqe 0, RDMA_WRITE, key 0x201, at 10:00:00.000200000Z
    #0 put.go:12 main.put
    #1 put.go:40 main.main\x1b[2J
  Earlier write of 64 bytes at 0x7f0200000000 by pid 4711 (put):
    qp 0x51, wqe 0, RDMA_WRITE, key 0x201, at 10:00:00.000180000Z
  The second program has to learn that the first access has ended: by a message that was posted after its completion was polled, or by an atomic.
==================
`, x.reports[0].String())
	b, err := json.Marshal(&x.reports[0])
	require.NoError(t, err)
	require.Contains(t, string(b), `{"code":"race","severity":"error","text":"32 bytes`)
	require.Contains(t, string(b), `{"does":"earlier write","program":"put","pid":4711,"client":1,"qp":81,"index":0,"opcode":"RDMA_WRITE","address":139646566662144,"length":64,"key":513,"ticks":180000,"time":"10:00:00.000180000Z"}`)
}

func TestStringWithoutClock(t *testing.T) {
	a := Access{Does: "store", Client: 7, CQ: 3, Ticks: 5}
	r := Report{Code: NeverPolled, Severity: Note, Text: "text", Accesses: []Access{a}}
	require.Equal(t, "==================\nNOTE: nicless sanitizer: never-polled: text\n  Store by client 7:\n    cq 0x3, at tick 5\n==================\n", r.String())
}

func TestEarlyAccess(t *testing.T) {
	a := EarlyAccess{Program: "put", PID: 4711, Client: 2, QP: 0x51, Index: 3, Addr: 0x7f0200001005, Buffer: 0x7f0200001000, Length: 8192,
		Key: 0x201, Stack: []string{"put.go:12 main.peek"}, Posted: []string{"put.go:7 main.post"}}
	r := a.Report()
	require.Equal(t, ReceiveBufferRead, r.Code)
	require.Equal(t, `==================
ERROR: nicless sanitizer: receive-buffer-read: the program has read the buffer of a receive at 0x7f0200001005, byte 5 of 8192, after the receive was posted and before its completion was polled
  Load by pid 4711 (put):
    #0 put.go:12 main.peek
  Receive of 8192 bytes at 0x7f0200001000 by pid 4711 (put):
    qp 0x51, receive 3, key 0x201
    #0 put.go:7 main.post
  A buffer belongs to the device from the post until the completion of the receive was polled.
==================
`, r.String())
	a.Write, a.QP, a.SRQ = true, 0, 9
	r = a.Report()
	require.Equal(t, ReceiveBufferChanged, r.Code)
	require.Equal(t, Note, r.Severity)
	require.Contains(t, r.String(), "has changed the buffer")
	require.Contains(t, r.String(), "srq 0x9, receive 3")
}
