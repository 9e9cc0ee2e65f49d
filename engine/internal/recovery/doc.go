// Package recovery knows what was lost on the paths between queue pairs of different devices.
//
// It is pure logic, without packets and clocks: package transport tells it what was sent and what has come.
// The types are not safe for concurrent use; each belongs to one queue pair, or to the port of one shard.
//
// # Files
//
//   - paths.go: counts for each path of a port; which paths are remembered
//   - limit.go: how many packets may be on the way: when that shrinks and grows
package recovery
