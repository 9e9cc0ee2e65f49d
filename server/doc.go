// Package server lets other processes use an engine: it listens at a unix socket and
// speaks the control protocol of docs/CONTROL.md with each client that connects. Payload
// does not come this way; it moves through memory that client and engine share.
//
// The engine runs beside it, in the same process (engine.Engine.Run), for as long as
// clients are served. Programs of rdma-core are served by package verbs in the same way.
//
// # Reading order
//
//	listen.go    Listen and Use: a socket, its lock, who may connect
//	serve.go     Serve: connections are accepted, admitted, served and discarded
//	session.go   the requests of one connection, and their answers
//	unread.go    descriptors in answers that no client has read yet
//
// What every server of this module needs from unix sockets is in internal/unixsock. What
// a server can ask of the engine is internal/nic.
//
// # One connection
//
// Serve takes the connection from unixsock.Acceptor.Next. admit asks the kernel for the
// user at the other end and charges that user one descriptor. From there on the connection
// has a goroutine of its own, which runs serve. It attaches a client to the device and
// serves one request after the other: session.next reads a datagram and removes it from the
// socket, session.call makes the request of the device, and session.answer sends what the
// device has answered, with its descriptors.
//
// The connection ends when the client closes it, sends what is not a request, or is
// silent before hello, or when the context of Serve ends. Then serve destroys what the
// client has made (nic.Client.Close), tells the client (unixsock.HangUp), waits
// until no descriptor lies unread at the client (unreadAnswers.wait), and leaves the
// closing of the socket to nic.Device.DiscardConnection, because closing can block.
//
// # Trust
//
// Clients are hostile. What a client costs is charged to its user before anything is
// taken: connections, memory, and descriptors that it has not read. No goroutine here
// closes a descriptor that a client has sent, and none waits for a client except its
// own. docs/SECURITY.md says what that defends against.
package server
