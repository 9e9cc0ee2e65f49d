// Package completion writes completions and sends the events of completion queues.
//
// A Completer is the layer above report.Reporter. It knows no work requests: the caller says what a
// completion reports.
//
// # Files
//
//   - completer.go: the layer
//   - cq.go: the bytes of a CQE, of an error CQE too; which arm it fires
//   - compress.go: compressed completions: a title and its minis
//   - inline.go: CQEs that carry data
//   - cq_overrun.go: the end of a completion queue that has no room
//   - arm.go: noticing that a client has armed a queue
//   - moderate.go: events that are held back
//   - channel.go: sending an event; events that are lost
package completion
