//go:build linux && (amd64 || arm64)

package metrics

import (
	"github.com/nicless/nicless/state"
)

// An engineState is what is known of an engine at a moment.
type engineState struct {
	device state.Device
	counts state.Counts // of all clients, those that are gone too
}

// Names of the counters that have exemplars.
const (
	explainedName       = "nicless_explained_total"
	clientExplainedName = "nicless_client_explained_total"
)

func engineFamilies() []family[engineState] {
	type s = engineState
	return describe([]family[s]{
		{name: "nicless_wqes_total", help: "Work requests (WQEs) executed, without flushed ones.",
			value: func(e *s) float64 { return float64(e.counts.WQEs) }},
		{name: "nicless_payload_bytes_total", help: "Bytes of payload that work requests have moved.",
			value: func(e *s) float64 { return float64(e.counts.Bytes) }},
		{name: "nicless_cqes_total", help: "Completions (CQEs) written.",
			value: func(e *s) float64 { return float64(e.counts.CQEs) }},
		{name: "nicless_wqes_failed_total", help: "Work requests that ended with an error.",
			value: func(e *s) float64 { return float64(e.counts.Failed) }},
		{name: "nicless_receives_total", help: "Receives consumed.",
			value: func(e *s) float64 { return float64(e.counts.Receives) }},
		{name: "nicless_events_total", help: "Events sent to clients.",
			value: func(e *s) float64 { return float64(e.counts.Events) }},
		{name: explainedName, help: "Mistakes and failures explained. The exemplar names the last one.",
			value: func(e *s) float64 { return float64(e.counts.Explained) }},
		{name: "nicless_stalls_total", help: "Times that a thread of the engine had to wait for memory of a client.",
			value: func(e *s) float64 { return float64(e.counts.Stalls) }},

		{name: "nicless_clients", help: "Connections of programs to the engine.",
			value: func(e *s) float64 { return float64(e.device.Clients) }},
		{name: "nicless_queues", help: "Queue pairs.",
			value: func(e *s) float64 { return float64(e.device.Queues) }},
		{name: "nicless_cqs", help: "Completion queues.",
			value: func(e *s) float64 { return float64(e.device.CQs) }},
		{name: "nicless_srqs", help: "Shared receive queues.",
			value: func(e *s) float64 { return float64(e.device.SRQs) }},
		{name: "nicless_watches", help: "Traces that somebody takes of the engine now.",
			value: func(e *s) float64 { return float64(e.device.Watches) }},
		{name: "nicless_fault_rules", help: "Rules of faults that the engine obeys now.",
			value: func(e *s) float64 { return float64(e.device.Faults) }},
		{name: "nicless_start_time_seconds", help: "When the engine started, in seconds since 1970.",
			value: func(e *s) float64 { return float64(e.device.Started.UnixMilli()) / 1e3 }},
	})
}

func threadFamilies() []family[state.Thread] {
	type t = state.Thread
	return describe([]family[t]{
		{name: "nicless_thread_busy_seconds_total",
			help:  "Time in which a thread of the engine found work, by an estimate. A polling thread also runs without work.",
			value: func(t *t) float64 { return seconds(t.Busy) }},
		{name: "nicless_thread_run_seconds_total", help: "Time that a thread of the engine ran on a core; 0 if the kernel does not count it.",
			value: func(t *t) float64 { return seconds(t.Ran) }},
		{name: "nicless_thread_wait_seconds_total",
			help:  "Time in which a thread of the engine was ready to run and had no core; 0 if the kernel does not count it.",
			value: func(t *t) float64 { return seconds(t.Waited) }},
		{name: "nicless_thread_asleep", help: "1: the thread sleeps until a client wakes it.",
			value: func(t *t) float64 { return one(t.Asleep) }},
		{name: "nicless_thread_stuck", help: "1: the thread has not advanced for a while.",
			value: func(t *t) float64 { return one(t.Stuck != "") }},
		{name: "nicless_thread_clients", help: "Clients whose work the thread does.",
			value: func(t *t) float64 { return float64(t.Clients) }},
		{name: "nicless_thread_queues", help: "Queue pairs of these clients that are not in RESET.",
			value: func(t *t) float64 { return float64(t.Queues) }},
		{name: "nicless_thread_warm_queues", help: "Queue pairs that the thread looks at in each step.",
			value: func(t *t) float64 { return float64(t.Warm) }},
		{name: "nicless_thread_stalled_queues", help: "Queue pairs of the thread whose next work request has to wait.",
			value: func(t *t) float64 { return float64(t.Stalled) }},
	}, "thread")
}

// is reports whether an answer is of the same engine as the one before. Another one at the same socket counts
// from 0, as Prometheus expects after a restart.
func (e *engineState) is(d *state.Device) bool {
	return e.device.PID == d.PID && e.device.Started.Equal(d.Started)
}

// addClients sets the counts of the engine from an answer. A client that goes while the engine answers can be
// missing in both the sum of those that are gone and the list, and is in the next answer. So that no count
// goes back, each is at least the one before.
func (e *engineState) addClients(s *state.Snapshot) {
	now := s.Device.Past
	for i := range s.Clients {
		now.Add(s.Clients[i].Counts)
	}
	e.device = s.Device
	c := &e.counts
	for _, p := range [...]struct{ shown, now *uint64 }{
		{&c.WQEs, &now.WQEs}, {&c.Bytes, &now.Bytes}, {&c.CQEs, &now.CQEs}, {&c.Failed, &now.Failed},
		{&c.Receives, &now.Receives}, {&c.Events, &now.Events}, {&c.Explained, &now.Explained}, {&c.Stalls, &now.Stalls},
	} {
		*p.shown = max(*p.shown, *p.now)
	}
}
