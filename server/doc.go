// Package server lets other processes use an engine. It listens at a unix socket and
// speaks the control protocol of docs/CONTROL.md with each client that connects. No
// payload passes through the socket: it moves through memory that client and engine
// share.
//
// The engine runs in the same process as the server (engine.Engine.Run), for as long as
// the server serves clients. Package verbs serves programs of rdma-core in the same way.
//
// # Reading order
//
//   - listen.go: whether a socket may be made or taken over, and with which mode
//   - serve.go: when a connection begins and ends, and what is destroyed then
//   - admit.go: whether a client is admitted, what it is charged, why it is refused
//   - requests.go: whether a request ends the connection; passes it to the device, which decides the answer
//   - unread.go: whether a client has read its descriptors; how long the end waits for that
//
// Package internal/unixsock has what every server of this module needs from unix sockets.
// Package internal/nic has the requests that a server can make of the engine.
//
// # One connection
//
// Serve takes the connection from unixsock.Acceptor.Next. admit asks the kernel for the
// user at the other end and charges that user one descriptor. Then Serve starts a goroutine
// for the connection, which runs serve. serve attaches a client to the device and serves one
// request after the other: session.serveRequest reads a datagram and removes it from the socket,
// session.call makes the request of the device, and session.answer sends the device's
// answer with its descriptors.
//
// The connection ends when the client closes it, sends something that is not a request, or
// is silent for too long before hello, or when the context of Serve ends. Then serve
// destroys what the client has made (nic.Client.Close), notifies the client (unixsock.HangUp),
// and waits until the client has no unread descriptors (unreadAnswers.wait). It leaves the
// closing of the socket to nic.Device.DiscardConnection, because closing can block.
//
// state.go answers those who ask for the state of the engine (package state), on a socket of their own.
//
// # Trust
//
// The server assumes that clients are hostile. It charges connections, memory and unread
// descriptors of a client to the client's user before it takes any of them. No goroutine
// here closes a descriptor that a client has sent. No goroutine waits for a client, except
// the one that serves this client. docs/SECURITY.md says which attacks these rules prevent.
package server
