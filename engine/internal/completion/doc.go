// Package completion writes completions and sends the events of completion queues.
//
// A Completer is the layer above report.Reporter. It knows no work requests: the caller says what a
// completion reports.
//
// A comment "Publish: X. Observed by Y." or "Observe: X. Published by Y." says that the function stores X
// with release order or loads X with acquire order, and names the function Y on the client's side that does
// the other; docs/ORDERING.md lists all such pairs.
//
// # Files
//
//   - completer.go: the layer
//   - cq.go: the bytes of a CQE, of an error CQE too; which arm it fires
//   - compress.go: compressed completions: a title and its minis
//   - inline.go: CQEs that carry data
//   - cq_overrun.go: the end of a completion queue that has no room
//   - arm.go: noticing that a client has armed a queue; an event that comes late or not at all
//   - moderate.go: events that are held back
//   - channel.go: sending an event; events that are lost
package completion
