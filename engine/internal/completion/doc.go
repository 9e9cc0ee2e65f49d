// Package completion writes completions and sends the events of completion queues.
//
// A Completer is the layer above report.Reporter. It knows no work requests: the caller says what a
// completion reports.
//
// # Files
//
//   - completer.go, cq.go: the layer; a completion, an error completion
//   - compress.go, inline.go: compressed completions; completions with data
//   - overrun.go: a queue that has no room
//   - arm.go, moderate.go, channel.go: arms; events that are held back; the events themselves
package completion
