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
//   - completer.go: the type of this layer; decides nothing
//   - cq.go: the bytes of a CQE and its owner bit; whether the completion fires an arm (Notify)
//   - vendor_syndrome.go: which vendor's error syndrome an error CQE has
//   - compress.go: when completions are collected, and when the session is written
//   - inline.go: where in a CQE data go; whether they go there is decided in object/inline
//   - cq_overrun.go: ends a CQ without room and reports it; whether it has room is decided in object/cq
//   - watched.go: records the CQEs of a watched queue, with their bytes
//   - arm.go: which arm words are read in a step, and whether a client has armed a CQ (ObserveArm)
//   - moderate.go: whether a due event is sent now or held back
//   - channel.go: sends an event; whether it waits for room; which CQs are on the list of held events
package completion
