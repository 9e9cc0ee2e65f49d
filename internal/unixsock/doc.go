// Package unixsock is what servers of this module need from unix sockets of type
// SOCK_SEQPACKET beyond package net: listening without a moment in which the wrong
// process can connect, a lock beside the socket, the credentials of a peer, and
// descriptors that travel with datagrams (SCM_RIGHTS).
//
// It is written for servers whose peers are other users' programs. Two rules follow
// from that, and most functions here exist because of them:
//
//   - Closing a descriptor that a peer has sent can block for as long as the peer
//     likes. Closing a connection that holds such descriptors unread can block too. So
//     no function here closes a received descriptor or a connection. The caller does so
//     at a point where it can wait. For this reason Peek and Take are two calls.
//   - A peer can connect, send or disconnect at any moment once the socket has a name. So
//     whatever a peer must not do before the server accepts it has to be made impossible
//     before the socket has a name.
//
// Files:
//
//	listen.go     makes a socket, and replaces a socket that a dead process has left
//	lock.go       keeps two servers from making one socket at the same time
//	accept.go     accepts connections
//	peer.go       queries the kernel about the other end
//	message.go    sends and receives datagrams and descriptors
//	descriptor.go a descriptor that a peer has sent
//	conn.go       a connection of which one request at a time is served
//	waiter.go     waits for connections that are silent
//	rights.go     says whether descriptors may be sent to a socket
//	directory.go  makes or checks the directory of sockets
//	wait.go       ends a server
//	report.go     answers each client with a value as JSON, and asks for such a value
//
// Errors have no prefix: the caller adds its own.
package unixsock
