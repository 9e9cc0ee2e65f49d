// Package replay does again what a trace says that a device has done, on a fresh device, and compares: each
// completion byte by byte, and the bytes at the destination of each message. So a trace is a regression test.
//
// The trace has to be recorded for a replay (nicless.WatchFilter.Replay, nicless run --replay): it then says
// how queues and keys were made, and has payload and receives.
//
// # How
//
// Run reads the trace twice. The first time it finds out which memory each client had, and which queue pairs
// cannot be replayed. The second time it makes the objects of the trace, under the same numbers, keys and
// addresses. So WQEs, receives and completions are the same bytes in both runs. Before a WQE it puts the
// recorded payload into the WQE's source and the recorded receive into its queue. Then it posts the bytes of
// the WQE alone, and steps the device until it has executed them. WQEs are posted in the order in which they
// were executed.
//
// All bytes of a completion are compared but its time stamp and its signature. The owner bit is not compared
// in collapsed queues, and in those that also had completions of queue pairs that are left out. A receive of
// a shared queue gets another entry if messages that take long overlap; then its index is translated. Times
// of waits, retries and events are not compared.
//
// # Files
//
//   - replay.go: Run, its options and its report
//   - plan.go: the first reading
//   - device.go: the device and its clients, their memory
//   - objects.go, queuepair.go, modify.go: makes the objects of the trace, and changes their states
//   - work.go: posts a WQE, and waits for it
//   - datagram.go: the GIDs of clients, from the headers of datagrams
//   - pieces.go: the memory that a WQE names
//   - compare.go: completions
package replay
