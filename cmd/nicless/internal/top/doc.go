//go:build linux && (amd64 || arm64)

// Package top shows an engine on a terminal, live: its threads, clients, queues and completion queues, and
// of one queue its latencies, its rings and the decoded entry under the cursor. It is `nicless top`.
//
// # Parts
//
// A [Source] has the state of an engine: a live one, or a recorded one in tests. [Model] is the screen: it
// takes messages (keys, sizes, answers of the source) and returns the text of the screen. It knows no
// terminal, no clock and no other goroutine, so tests play messages and compare screens. [Run] joins both
// with a terminal by Bubble Tea.
//
// # Cost
//
// The engine is asked once in an interval. If that took the processor time t, the next time is not before
// 100 t have passed; see pace. Latencies are short samples of one visible queue after another; see package
// latency.
//
// # What others have a part in
//
// Names of clients, explanations and bytes of rings are hostile. Text passes through clean before it gets a
// place on the screen, and widths are those of terminals, not counts of bytes.
//
// # Files
//
//   - source.go, live.go: where the state comes from
//   - model.go, refresh.go, keys.go: messages, and what follows from them
//   - pace.go: how often the engine is asked
//   - picture.go, rates.go: two snapshots make rates
//   - table.go, order.go, fit.go: any table; queues.go, clients.go, cqs.go: the three that there are
//   - page.go, overview.go: a queue; ring.go, entries.go, describe.go: a ring of it
//   - view.go, head.go, help.go, style.go: the screen around them
//   - text.go, number.go: text and numbers in columns
//   - run.go: the terminal
package top
