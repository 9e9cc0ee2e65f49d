// Package metrics serves the metrics of an engine over HTTP, in the text format of Prometheus and in
// OpenMetrics. docs/METRICS.md has the names and what they mean, docs/design/0085 why they are so.
//
// # A scrape
//
// An HTTP server gets a request for /metrics. Exporter.page gives it the bytes that it made less than a
// second ago. If there are none, it asks the engine's sockets, as nicless links does: so the engine
// answers at most once a second, however many ask for metrics, and never waits for one of them. Clients
// and peers of links come and go: a ledger turns their counts into series that only grow and whose number
// is bounded. Exporter.Collect gives all values to client_golang's registry, which checks and sorts them.
//
// # Files
//
//   - family.go: a metric, its name and how to get its value
//   - engine.go, clients.go, peers.go: the metrics of the engine and its threads, of clients, of links
//   - ledger.go: series of objects that come and go
//   - exporter.go: asks the engine, at most once a second, and makes the pages
//   - page.go: a page in a format
//   - server.go: the HTTP server, and which requests it refuses
//   - listener.go: the address
package metrics
