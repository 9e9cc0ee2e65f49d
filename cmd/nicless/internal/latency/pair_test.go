package latency

import (
	"testing"
	"time"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/trace"
	"github.com/stretchr/testify/require"
)

const queue = 0x51

// completion returns the event of count completions, whose first WQE begins at a block.
func completion(of uint32, op cqe.Opcode, block, count uint16, ticks uint64) *trace.Event {
	c := cqe.CQE{QPN: of, Counter: block, OpOwn: cqe.MakeOpOwn(op, cqe.FormatPlain, false, 0)}
	var b [cqe.Size]byte
	c.Put(&b)
	return &trace.Event{Kind: trace.KindCQE, Time: ticks, Queue: 7, Count: count, Data: b[:]}
}

func doorbell(index, count uint16, ticks uint64) *trace.Event {
	return &trace.Event{Kind: trace.KindDoorbell, Time: ticks, Queue: queue, Index: index, Count: count}
}

// play returns the latencies that a pairing finds. The device clock has 2 ticks in a nanosecond.
func play(announced uint64, events ...*trace.Event) (found []time.Duration) {
	p := newPairing(queue, announced, 2e9)
	for _, e := range events {
		p.event(e, func(d time.Duration) { found = append(found, d) })
	}
	return found
}

func TestPairing(t *testing.T) {
	for name, c := range map[string]struct {
		announced uint64
		events    []*trace.Event
		want      []time.Duration
	}{
		"each completion has the time of its doorbell": {0, []*trace.Event{
			doorbell(0, 1, 100), doorbell(1, 2, 200),
			completion(queue, cqe.Req, 0, 1, 300), completion(queue, cqe.Req, 1, 2, 400),
		}, []time.Duration{100, 100, 100}},
		"blocks that a later visit finds again keep their first time": {0, []*trace.Event{
			doorbell(0, 4, 100), completion(queue, cqe.Req, 0, 1, 120), doorbell(1, 3, 500),
			completion(queue, cqe.Req, 3, 1, 700),
		}, []time.Duration{10, 300}},
		"what was announced before the watch does not count": {6, []*trace.Event{
			doorbell(4, 3, 100), completion(queue, cqe.Req, 5, 2, 200),
		}, []time.Duration{50}},
		"an unsignaled WQE has none": {0, []*trace.Event{
			doorbell(0, 8, 100), completion(queue, cqe.Req, 7, 1, 200),
		}, []time.Duration{50}},
		"counts go on beyond 16 bits": {1<<32 + 0xfffe, []*trace.Event{
			doorbell(0xfffe, 4, 100), completion(queue, cqe.Req, 0xffff, 2, 200),
		}, []time.Duration{50, 50}},
		"other queues, receives and failures do not count": {0, []*trace.Event{
			doorbell(0, 4, 100), completion(9, cqe.Req, 0, 1, 200), completion(queue, cqe.RespSend, 0, 1, 200),
			completion(queue, cqe.ReqErr, 0, 1, 200),
		}, nil},
		"after lost events, only new doorbells count": {0, []*trace.Event{
			doorbell(0, 4, 100), {Kind: trace.KindLost, Value: 9}, completion(queue, cqe.Req, 0, 1, 200),
			doorbell(8, 1, 300), completion(queue, cqe.Req, 8, 1, 320),
		}, []time.Duration{10}},
		"RESET begins anew": {40, []*trace.Event{
			doorbell(40, 1, 100), {Kind: trace.KindState, Queue: queue, Index: 0}, doorbell(0, 1, 300),
			completion(queue, cqe.Req, 0, 1, 320),
		}, []time.Duration{10}},
		"a CQE that is cut off is passed over": {0, []*trace.Event{
			doorbell(0, 1, 100), {Kind: trace.KindCQE, Time: 200, Count: 1, Data: make([]byte, 8)},
		}, nil},
	} {
		require.Equal(t, c.want, play(c.announced, c.events...), name)
	}
}

// A program that signals nothing does not make the list of its doorbells grow.
func TestPairingIsBounded(t *testing.T) {
	p := newPairing(queue, 0, 1e9)
	for i := range 10 * mostPosts {
		p.event(doorbell(uint16(i), 1, uint64(i)), nil)
	}
	require.LessOrEqual(t, len(p.posts), mostPosts)
	var got time.Duration
	last := 10*mostPosts - 1
	p.event(completion(queue, cqe.Req, uint16(last), 1, uint64(last)+5), func(d time.Duration) { got = d })
	require.EqualValues(t, 5, got)
}

func TestHistory(t *testing.T) {
	var h History
	require.Zero(t, h.Quantile(0.5))
	require.Empty(t, h.Buckets())
	h.Add(Sample{Latencies: []time.Duration{1500, 1500, 3000, 12000, 0, time.Hour}})
	require.Equal(t, []Bucket{{1, 2, 1}}, h.Buckets()[:1])
	require.EqualValues(t, 50*time.Second, h.Buckets()[len(h.Buckets())-1].From, "100 s to 1 %, from below")
	require.Equal(t, 6, h.Count())

	h = History{}
	h.Add(Sample{Latencies: []time.Duration{1500, 1500, 3000, 12000}})
	require.Equal(t, []Bucket{{1000, 2000, 2}, {2000, 5000, 1}, {5000, 10000, 0}, {10000, 20000, 1}}, h.Buckets())
	require.InEpsilon(t, 1500, h.Quantile(0.5), 0.01)
	require.InEpsilon(t, 12000, h.Quantile(0.99), 0.01)

	for range kept { // the first ones give way
		h.Add(Sample{Latencies: []time.Duration{700}})
	}
	require.Equal(t, kept, h.Count())
	require.Equal(t, []Bucket{{500, 1000, kept}}, h.Buckets())
}
