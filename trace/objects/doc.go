// Package objects keeps what exists on a device while somebody reads its trace: the clients, the queue
// pairs, and the WQEs that the device has fetched and not executed yet. So a reader of events can name the
// client of a queue pair, and knows the bytes of a WQE when an event says that the WQE was executed.
//
// The memory that a Table needs is bounded by what exists on the device at one time, and by the constants
// below, whatever the trace says and however long it is.
//
// # Files
//
//   - table.go: the table of clients and queue pairs
//   - wqe.go: how a fetch is divided into WQEs, and the WQEs that were fetched
package objects
