// Package recovery knows what was lost on the paths between queue pairs of different devices.
//
// It is pure logic, without packets and clocks: package transport tells it what was sent and what has come.
// The types are not safe for concurrent use; each belongs to one queue pair, or to the port of one shard.
//
// # Files
//
//   - paths.go: counts for each path of a port; which paths are remembered
//   - limit.go: how many packets may be on the way: when that shrinks and grows
//   - agreement.go: whether the other end of a path understands reports: when a question goes, which answer
//     counts
//   - roundtrip.go: how long a round trip takes, and after which time a peer is silent
//   - looks.go: whether this end has looked for answers, and how long it waits until it has
//   - sent.go: which packets the peer has, and which are lost
//   - state.go: what a queue pair knows; which packets are sent again (Needs); which reports are possible
//     (Take)
//   - answers.go: which answers to READs are lost, and which are requested again together (Run)
//   - early.go: which packets that come too early are kept, and when they are reported
//   - store.go: the memory for those
//   - account.go: who is charged for it
//   - rest.go: when the system gets it back
//   - long.go: what is different on long paths, whose windows follow round trips (package congestion)
//   - report.go: the form of a report
package recovery
