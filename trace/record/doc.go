// Package record makes a trace for a replay out of what processes have copied from the rings of their queues:
// the raw records of the library that programs of nicless record preload (verbs/record). A trace that an
// engine writes says what the device did. Here only the memory that host and device share is known, so this
// package infers what the device did from it.
//
// # How
//
//   - A WQE was executed if the completion of it, or of a later one of its queue, is there, or that of the
//     receive that its message has taken.
//   - On RC, the messages of a queue pair take the receives of its peer in their order. On UC and UD some are
//     lost: there a receive belongs to the first message of the same sender and length.
//   - WQEs are executed one after the other, in an order in which each queue has its WQEs, and each
//     completion queue its completions, as they were. A real device executes several at a time, so there may
//     be no such order: messages that cross. Then completions change places, and are counted. The owner bit
//     of a completion is that of its place.
//   - A queue pair that is reset begins another life, and may have another peer.
//   - A send queue ends in the trace before the first WQE of which not all completions are there, and where
//     posted blocks are missing.
//
// All but the bytes of payload is in memory at once, some 300 bytes for each WQE and each completion;
// limits.go says how many there may be.
//
// # Layout of a raw file
//
// All numbers are little-endian. The file begins with
//
//	offset  bytes
//	0       8      "niclraw1"
//	8       4      process id
//	12      4      user id
//	16      8      CLOCK_MONOTONIC at a moment, in nanoseconds, and
//	24      8      CLOCK_REALTIME at the same moment
//	32      32     name of the program, padded with 0
//
// Records follow, each at a multiple of 8 bytes:
//
//	0       4      size of the record, a multiple of 8, at most 64 KiB
//	4       1      kind; see verbs/record/raw.h, which has the data of each
//	5       1      bytes of padding after the data, 0..7
//	6       2      0
//	8       8      CLOCK_MONOTONIC before the call of the program, in nanoseconds
//	16      8      id of the object, a number that the process has counted
//	24      8      value
//	32             data
//
// # Files
//
//   - raw.go: raw files
//   - limits.go: how much a record may have
//   - objects.go: what is kept of queues, WQEs and completions
//   - gather.go: reads the records of a process
//   - pair.go: which queue pairs were connected
//   - match.go: which completions and receives belong to a WQE, and which WQEs are left out
//   - order.go: the order of WQEs and of all else
//   - devx.go: the queues that firmware commands have made, which are not recorded
//   - write.go: the events of the trace
//   - summary.go: what is in the trace, and what is not
package record
