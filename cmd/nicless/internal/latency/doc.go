// Package latency measures how long the work of a queue pair takes, from post to completion, by the times of
// the device itself: of the event that the device has found the WQE announced, and of the event that it has
// written the WQE's completion.
//
// # Samples
//
// A watch of everything at full rate costs an engine a tenth of its rate. So a [Sample] is short: a watch of
// one queue pair is open until it has seen [MostCompletions] completions, at most [MostEvents] events, and at
// most [MostTime].
//
// # Meaning
//
// Only signaled WQEs that succeed have a latency here. Of a WQE whose peer is on another device, the first
// event is that the device has begun it. WQEs that were announced before the watch began do not count,
// because nobody knows when that was.
//
// # Files
//
//   - measure.go: takes a sample of a queue pair of an engine
//   - pair.go: finds the doorbell of a completion
//   - history.go: the latest samples of a queue pair, and their distribution
package latency
