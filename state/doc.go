// Package state is how programs ask an engine for the state of its objects at a moment: its threads, clients,
// queues and completion queues, and the entries of one ring. `nicless status`, `nicless top` and the metrics
// of an engine are made of it.
//
// An engine answers on a stream socket beside its own: its path with [Suffix]. A client connects, and writes
// a [Request] as a line of JSON. The engine writes the answer as lines of JSON, each of which is a [Line],
// and closes the connection. The last line has End. So any language can ask:
//
//	echo '{}' | nc -NU $XDG_RUNTIME_DIR/nicless.sock.state
//
// The kernel says which user asks (SO_PEERCRED). Root and the engine's own user see the objects of all users,
// others only those of their own user: the same as those that they may watch.
//
// # A moment
//
// An engine goes on working while it answers. It reads up to 64 objects between two of its steps, so each
// object is shown as it was at a moment, and two objects at different moments. Counts never go back, and a
// rate is the difference of two counts by the difference of the times of their lines.
//
// # Files
//
//   - device.go, queue.go: the objects
//   - fabric.go: the engines of the fabric
//   - request.go: what is asked, and the lines of an answer
//   - read.go: asks an engine
package state

// Suffix, appended to the path of an engine's socket, gives the socket at which the engine answers.
const Suffix = ".state"
