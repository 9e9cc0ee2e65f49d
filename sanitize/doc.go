// Package sanitize finds mistakes of programs in the events of a device: races between accesses of remote
// programs to memory, and uses of memory, keys and queues that belong to the device. It is to RDMA what
// ThreadSanitizer is to threads. A Sanitizer is a state machine over the events of a watch that was begun for
// it (WatchFilter.Sanitize), or of a trace of such a watch, and works on every system that Go builds for.
//
// # How
//
// A WQE is in flight from when the device finds it until its bytes were moved. In that time it may access
// memory: its source, its result, remote memory, the buffer of the receive that its message gets. Each
// process has a tree of such records. An access that begins is compared with those that overlap: two writes,
// or a read and a write, need an order (race.go).
//
// Orders come from queue pairs, which execute their WQEs one after the other, and from what programs know.
// A clock says up to which WQE of each queue pair somebody knows that they have ended. A program takes
// completions; a completion of a receive brings what the sender knew when it posted; an atomic brings what
// the atomics before it have left at its word; a WQE that writes brings what its program knew to the program
// whose memory it is, when that posts next: it may have polled its memory.
//
// Programs also tell each other over sockets, which no event shows. So a pair of which one had ended before
// the other was found is a race only if Options.Strict says that there are none.
//
// # Bounds
//
// Events are taken as they come, whoever made them. state.go says how much is kept; what has no room is
// counted (Result.Dropped), and can only make the Sanitizer find less.
//
// # Files
//
//   - sanitizer.go: New, Event and End; which reports are made
//   - report.go: what a report is
//   - state.go: what is kept of processes, queues, WQEs and memory, and how much
//   - life.go: what there is on the device, and what is gone
//   - lost.go: what is dropped when events are lost
//   - ending.go: what is wrong with the end of a queue
//   - work.go: when WQEs begin and end, and which memory they access
//   - receive.go: which receives were posted, and which message gets one
//   - completion.go: which completions were taken, and what they tell
//   - memory.go: the records of accesses to memory
//   - race.go: which accesses need an order, and which have one
//   - changed.go: memory and queues that were changed too early
//   - early.go: accesses to receive buffers that only the program itself notices
//   - keygone.go: uses of keys that were deregistered
//   - keys.go: which memory a key gives access to
//   - clock.go: vector clocks
//   - tree.go: a search tree of memory
package sanitize
