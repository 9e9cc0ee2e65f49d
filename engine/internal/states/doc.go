// Package states has the table of the states of queue pairs, and of the transports.
//
// # Files
//
//   - states.go: the transitions of a queue pair, and their attributes; the opcodes of each transport
package states
