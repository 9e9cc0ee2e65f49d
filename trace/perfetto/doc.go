// Package perfetto writes the events of a trace as timelines, in the protobuf form that ui.perfetto.dev and
// trace_processor read.
//
// # Tracks
//
//   - A process is a track. Its queue pairs and its completion queues are tracks below it. Clients without
//     a process id are tracks of their own.
//   - Below a queue pair are its WQEs: a slice for each, from the doorbell that announced the WQE to its
//     completion, or to its execution if it is unsignaled. WQEs that overlap are beside each other, on tracks
//     of one name, which the viewer shows as one.
//   - Doorbells, changes of state, receives and explanations are instants of the queue pair; CQEs those of
//     their completion queue; keys those of their process; packets those of their port.
//   - A slice has instants when the WQE was fetched, had to wait, went on, was executed, or failed.
//
// # Flows
//
// Arrows lead from a doorbell to the WQEs that it announced; from a WQE to its CQE; and from a SEND or WRITE
// with immediate to the CQE of the peer's receive. The events of a trace do not say which message a receive
// got: the receives of a connection get the messages of the peer in their order.
//
// Times are those of the day, in nanoseconds. The memory of a Writer is bounded as that of objects.Table is.
//
// # Files
//
//   - writer.go: what an event becomes
//   - life.go: the slices of WQEs
//   - track.go: tracks, and when they are described
//   - message.go: the packets of Perfetto's format, and their fields
//
// Source: protos/perfetto/trace in the tree of Perfetto, for the numbers of fields.
package perfetto
