// Package eventsocket has what an event socket of a client needs, whichever events it carries. Each event is
// a datagram, which is sent without waiting.
//
// A client that does not read fills its socket. The event of a completion queue then waits in the queue,
// which stays armed. An event about an object is kept here until there is room. The device tries again after
// pauses that grow.
//
// # Files
//
//   - socket.go: makes the socket; which errors of a send mean that there may be room later
//   - pauses.go: when a socket that was full is tried again; when the client is told that it does not read
//   - late.go: which events about objects wait for room, and in which order they go
package eventsocket
