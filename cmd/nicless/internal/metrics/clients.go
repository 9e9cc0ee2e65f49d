//go:build linux && (amd64 || arm64)

package metrics

import (
	"fmt"
	"strconv"
	"time"

	"github.com/nicless/nicless/state"
	"github.com/prometheus/client_golang/prometheus"
)

// Bounds on series of clients. Each has a line for each of clientCounts and clientGauges.
const (
	mostClients     = 512 // series
	mostUserClients = 128 // of one user
)

// other is the value of the labels of all objects that have no series of their own.
const other = "other"

// A count is a counter, or a gauge, of objects that a ledger sums.
type count[T any] struct {
	name, help string
	of         func(*T) uint64
}

// clientCounts are the counters of clients.
var clientCounts = []count[state.Client]{
	{"nicless_client_wqes_total", "Work requests (WQEs) of a program executed, without flushed ones.",
		func(c *state.Client) uint64 { return c.Counts.WQEs }},
	{"nicless_client_payload_bytes_total", "Bytes of payload that work requests of a program have moved.",
		func(c *state.Client) uint64 { return c.Counts.Bytes }},
	{"nicless_client_cqes_total", "Completions (CQEs) written for a program.",
		func(c *state.Client) uint64 { return c.Counts.CQEs }},
	{"nicless_client_wqes_failed_total", "Work requests of a program that ended with an error.",
		func(c *state.Client) uint64 { return c.Counts.Failed }},
	{"nicless_client_receives_total", "Receives of a program consumed.",
		func(c *state.Client) uint64 { return c.Counts.Receives }},
	{"nicless_client_events_total", "Events sent to a program.",
		func(c *state.Client) uint64 { return c.Counts.Events }},
	{clientExplainedName, "Mistakes and failures of a program explained. The exemplar names the last one.",
		func(c *state.Client) uint64 { return c.Counts.Explained }},
	{"nicless_client_stalls_total", "Times that a thread of the engine had to wait for memory of a program.",
		func(c *state.Client) uint64 { return c.Counts.Stalls }},
}

// clientGauges are the gauges of clients.
var clientGauges = []count[state.Client]{
	{"nicless_client_connections", "Connections of a program to the engine.",
		func(*state.Client) uint64 { return 1 }},
	{"nicless_client_queues", "Queue pairs of a program.",
		func(c *state.Client) uint64 { return uint64(c.Queues) }},
	{"nicless_client_cqs", "Completion queues of a program.",
		func(c *state.Client) uint64 { return uint64(c.CQs) }},
	{"nicless_client_srqs", "Shared receive queues of a program.",
		func(c *state.Client) uint64 { return uint64(c.SRQs) }},
	{"nicless_client_mrs", "Memory keys of a program: registered memory, windows and lists.",
		func(c *state.Client) uint64 { return uint64(c.MRs) }},
	{"nicless_client_pds", "Protection domains of a program.",
		func(c *state.Client) uint64 { return uint64(c.PDs) }},
	{"nicless_client_memory_bytes", "Bytes that a program shares with the engine.",
		func(c *state.Client) uint64 { return c.Memory }},
	{"nicless_client_linked_queues", "Queue pairs of a program whose peer is on another engine.",
		func(c *state.Client) uint64 { return uint64(c.Linked) }},
	{"nicless_client_waiting_queues", "Queue pairs of a program whose next work request has to wait.",
		func(c *state.Client) uint64 { return uint64(c.Waiting) }},
}

// clients are the series of clients, and what was explained to them last.
type clients struct {
	*ledger[uint32]
	counts, gauges []family[series]
	labels         map[uint32]labels  // of each client, as it was seen first: a program can change its name
	errors         map[labels]failure // the last of each series
	last           failure            // of the engine
}

// A failure is an explanation.
type failure struct {
	state.Error
	program string
}

var clientLabels = []string{"device", "client", "uid"}

func newClients() *clients {
	c := &clients{
		counts: countFamilies(clientCounts, clientLabels...),
		gauges: gaugeFamilies(clientGauges, clientLabels...),
	}
	c.reset()
	return c
}

// reset begins anew, without series: the next answer is of another engine, which numbers its clients from 1.
func (c *clients) reset() {
	c.ledger = newLedger[uint32](mostClients, mostUserClients, len(clientCounts), len(clientGauges),
		labels{other, other, other})
	c.labels = make(map[uint32]labels)
	c.errors = make(map[labels]failure)
	c.last = failure{}
}

// look takes an answer of the engine. device returns the name of the device of a port.
func (c *clients) look(s *state.Snapshot, device func(port int) string) {
	now := make([]entry[uint32], 0, len(s.Clients))
	named := make(map[uint32]labels, len(s.Clients))
	for i := range s.Clients {
		client := &s.Clients[i]
		if _, twice := named[client.Number]; twice {
			continue
		}
		l, known := c.labels[client.Number]
		if !known {
			l = labels{label(device(client.Port)), label(client.Program), strconv.Itoa(int(client.UID))}
		}
		named[client.Number] = l
		now = append(now, entry[uint32]{id: client.Number, labels: l, owner: l[2],
			counts: values(clientCounts, client), gauges: floats(values(clientGauges, client))})
	}
	c.labels = named
	c.update(now)
	c.explained(s.Clients)
	for _, e := range s.Device.Errors { // a client may have failed and gone between two answers
		c.noteLast(failure{e, e.Client})
	}
}

// noteLast notes an explanation if it is the last of the engine.
func (c *clients) noteLast(f failure) {
	if f.Time.After(c.last.Time) {
		c.last = f
	}
}

// explained notes the last explanations.
func (c *clients) explained(list []state.Client) {
	for i := range list {
		o := c.objects[list[i].Number]
		if o == nil || len(list[i].Errors) == 0 {
			continue
		}
		f := failure{list[i].Errors[0], c.labels[list[i].Number][1]}
		if at := o.series.labels; !f.Time.Before(c.errors[at].Time) {
			c.errors[at] = f
		}
		c.noteLast(f)
	}
	for at := range c.errors { // those of series that were evicted
		if c.series[at] == nil && at != c.rest.labels {
			delete(c.errors, at)
		}
	}
}

func (c *clients) collect(out chan<- prometheus.Metric) {
	for _, s := range c.all() {
		f := c.errors[s.labels]
		send(out, c.counts, s, s.labels[:], func(name string, m prometheus.Metric) prometheus.Metric {
			if name != clientExplainedName {
				return m
			}
			return f.exemplar(m)
		})
		send(out, c.gauges, s, s.labels[:], nil)
	}
}

// exemplar returns m with the explanation as its exemplar, if there is one. An exemplar has at most 128
// characters, names of labels included.
func (f *failure) exemplar(m prometheus.Metric) prometheus.Metric {
	if f.Time.IsZero() {
		return m
	}
	with, err := prometheus.NewMetricWithExemplars(m, prometheus.Exemplar{Value: 1,
		Timestamp: f.Time.Truncate(time.Millisecond),
		Labels: prometheus.Labels{"code": short(f.Code), "queue": fmt.Sprintf("0x%06x", f.Queue),
			"index": strconv.Itoa(int(f.Index)), "program": short(f.program)}})
	if err != nil {
		return m
	}
	return with
}

// short returns at most 32 characters: four such labels and their names are fewer than 128.
func short(s string) string {
	const most = 32
	s = label(s)
	if r := []rune(s); len(r) > most {
		s = string(r[:most])
	}
	return s
}

func values[T any](list []count[T], object *T) []uint64 {
	v := make([]uint64, len(list))
	for i := range list {
		v[i] = list[i].of(object)
	}
	return v
}

func floats(list []uint64) []float64 {
	v := make([]float64, len(list))
	for i, n := range list {
		v[i] = float64(n)
	}
	return v
}

func countFamilies[T any](list []count[T], labels ...string) (all []family[series]) {
	for i, c := range list {
		all = append(all, family[series]{name: c.name, help: c.help,
			value: func(s *series) float64 { return float64(s.counts[i]) }})
	}
	return describe(all, labels...)
}

func gaugeFamilies[T any](list []count[T], labels ...string) (all []family[series]) {
	for i, c := range list {
		all = append(all, family[series]{name: c.name, help: c.help,
			value: func(s *series) float64 { return s.gauges[i] }})
	}
	return describe(all, labels...)
}
