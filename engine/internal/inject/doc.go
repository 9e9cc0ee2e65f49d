// Package inject keeps what rules of faults (package fault) do to a queue pair.
//
// The device asks a Queue before it executes a WQE, and does what the rule says: execution.Inject. Only queue
// pairs that a rule can have to do with have a Queue, and they do not take the fast path, so all others pay
// nothing. The thread of the queue pair's shard uses its Queue.
//
//   - rules.go: rules that the device obeys, and since when
//   - facts.go: what rules ask of the segments of a WQE
//   - pass.go: explains bytes that became visible against their order
//   - command.go: what rules want to be done between two steps; decides nothing
//   - link.go: which rule acts on a packet that goes to a link; how long a link is cut
//   - bell.go: which value of its send record a queue goes by, and from when on
//   - queue.go: which rule acts on the WQE at the head of a queue, decided once for each WQE; the order of
//     bytes that a rule asks for
package inject
