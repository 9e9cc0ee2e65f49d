// Package custody watches over bytes that belong to the device, for the sanitizer: WQEs and the bytes that
// they send, from the moment at which the device finds them until their completion; receives and their
// buffers, until a message takes them. A program that changes such bytes meanwhile makes a mistake, which the
// device cannot tell otherwise.
//
// WQEs that are found are held back for HoldTime, because an engine that executes a WQE within a microsecond
// leaves a program no time for its mistake. Before they are released, everything is compared with what was
// found. Findings are events (trace.KindChanged); package sanitize says whose fault they are.
//
//   - keeper.go: when WQEs are found, held, compared and released
//   - found.go: which bytes a WQE has
//   - receives.go: receives, of queue pairs and shared
//   - polled.go: how far completions were taken
//   - compare.go: checksums, and what has changed
package custody
