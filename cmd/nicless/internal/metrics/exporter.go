//go:build linux && (amd64 || arm64)

package metrics

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/fabric/links"
	"github.com/nicless/nicless/internal/unixsock"
	"github.com/nicless/nicless/state"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

const (
	// fresh is how long values stand for the present: the engine is asked at most once in this time.
	fresh = time.Second

	// patience is how long an engine that does not answer is waited for. Prometheus waits 10 s by default.
	patience = 2 * time.Second
)

// A Build says which program serves the metrics.
type Build struct{ Version, Go, Protocol string }

// An Exporter makes the metrics of one engine. Its methods may be used by several goroutines at once.
type Exporter struct {
	socket string
	device func(port int) string
	build  Build
	now    func() time.Time

	registry *prometheus.Registry

	mu       sync.Mutex // guards what follows; held while the engine is asked
	until    time.Time  // the values stand until then
	families []*dto.MetricFamily
	pages    map[format][]byte // of these families
	seen     view
}

// A view is what is known of the engine. Only Collect reads it, which the registry calls for refresh.
type view struct {
	answered bool
	took     time.Duration
	engine   engineState
	threads  []state.Thread
	clients  *clients
	peers    *peers

	engineMetrics []family[engineState]
	threadMetrics []family[state.Thread]
	ownMetrics    []family[view]
	builds        []family[Build]
	engines       []family[state.Device]
}

// New returns the exporter of the engine with this socket. device returns the name of an engine's device.
func New(socket string, device func(port int) string, b Build) *Exporter {
	e := &Exporter{
		socket: socket, device: device, build: b, now: time.Now,
		registry: prometheus.NewRegistry(),
		seen: view{
			clients: newClients(), peers: newPeers(),
			engineMetrics: engineFamilies(), threadMetrics: threadFamilies(), ownMetrics: ownFamilies(),
			builds: describe([]family[Build]{{name: "nicless_build_info",
				help:  "Always 1. The labels name the version of nicless, of Go, and of the control protocol.",
				value: func(*Build) float64 { return 1 }}}, "version", "goversion", "protocol"),
			engines: describe([]family[state.Device]{{name: "nicless_engine_info",
				help:  "Always 1. The labels name the engine: GUID, first device, process.",
				value: func(*state.Device) float64 { return 1 }}}, "guid", "device", "pid"),
		},
	}
	e.registry.MustRegister(e)
	return e
}

// ownFamilies are about the questions to the engine.
func ownFamilies() []family[view] {
	return describe([]family[view]{
		{name: "nicless_up", help: "1: the engine has answered. Without an answer there are no other values of it.",
			value: func(v *view) float64 { return one(v.answered) }},
		{name: "nicless_answer_seconds", help: "Time in which the engine's sockets have answered.",
			value: func(v *view) float64 { return v.took.Seconds() }},
	})
}

// Describe implements prometheus.Collector.
func (e *Exporter) Describe(out chan<- *prometheus.Desc) {
	for _, r := range e.seen.rows() {
		out <- r.desc
	}
}

// A row is a metric in the table of docs/METRICS.md.
type row struct {
	name, help string
	kind       prometheus.ValueType
	labels     []string
	desc       *prometheus.Desc
}

// rows returns all metrics, in the order of the documents.
func (v *view) rows() []row {
	return slices.Concat(rowsOf(v.builds), rowsOf(v.engines), rowsOf(v.ownMetrics), rowsOf(v.engineMetrics),
		rowsOf(v.threadMetrics), rowsOf(v.clients.counts), rowsOf(v.clients.gauges),
		rowsOf(v.peers.gauges), rowsOf(v.peers.counts), rowsOf(v.peers.dropped))
}

func rowsOf[T any](list []family[T]) (rows []row) {
	for i := range list {
		f := &list[i]
		rows = append(rows, row{f.name, f.help, f.kind(), f.labels, f.desc})
	}
	return rows
}

// Collect implements prometheus.Collector. Only the exporter's own registry may call it: refresh holds e.mu.
func (e *Exporter) Collect(out chan<- prometheus.Metric) {
	v := &e.seen
	b := &e.build
	send(out, v.builds, b, []string{label(b.Version), label(b.Go), label(b.Protocol)}, nil)
	send(out, v.ownMetrics, v, nil, nil)
	if !v.answered {
		return
	}
	d := &v.engine.device
	send(out, v.engines, d, []string{label(d.GUID), label(d.Name), strconv.Itoa(d.PID)}, nil)
	send(out, v.engineMetrics, &v.engine, nil, func(name string, m prometheus.Metric) prometheus.Metric {
		if name != explainedName {
			return m
		}
		return v.clients.last.exemplar(m)
	})
	for i := range v.threads {
		t := &v.threads[i]
		send(out, v.threadMetrics, t, []string{strconv.Itoa(t.Number)}, nil)
	}
	v.clients.collect(out)
	v.peers.collect(out)
}

// refresh asks the engine unless the values are fresh. The caller holds e.mu, so requests that come meanwhile
// wait for the same answer.
func (e *Exporter) refresh() error {
	if e.now().Before(e.until) {
		return nil
	}
	e.query()
	families, err := e.registry.Gather()
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	e.families, e.pages = families, make(map[format][]byte)
	e.until = e.now().Add(fresh)
	return nil
}

// query asks the engine for its state.
func (e *Exporter) query() {
	v := &e.seen
	begin := e.now()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := state.Read(ctx, e.socket, state.Request{Kinds: []state.Kind{state.Clients}})
	v.answered = err == nil
	if v.answered {
		if !v.engine.is(&s.Device) {
			v.engine = engineState{}
			v.clients.reset()
			v.peers.reset()
		}
		v.engine.addClients(s)
		v.threads = s.Threads
		v.clients.look(s, e.device)
		var list []links.Report
		if unixsock.Query(e.socket+nicless.LinksSuffix, patience, &list) == nil {
			v.peers.look(list)
		}
	}
	v.took = e.now().Sub(begin)
}
