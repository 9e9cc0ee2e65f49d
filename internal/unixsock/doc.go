// Package unixsock is what servers of this module need from unix sockets of type
// SOCK_SEQPACKET beyond package net: listening without a moment in which the wrong
// process can connect, a lock beside the socket, the credentials of a peer, and
// descriptors that travel with datagrams (SCM_RIGHTS).
//
// It is written for servers whose peers are other users' programs. Two rules follow
// from that, and most functions here exist because of them:
//
//   - Closing a descriptor that a peer has sent can block for as long as the peer
//     likes, and so can closing a connection in which such descriptors lie unread. No
//     function here closes a received descriptor or a connection; the caller does,
//     where it can afford to wait. That is why Peek and Take are two calls.
//   - A peer can connect, send or disconnect at any moment. What must not happen
//     before a peer is accepted is prevented before the socket has a name.
//
// Files: listen.go makes a socket, and replaces one that a dead process has left; lock.go
// keeps two servers from doing so at once; accept.go accepts connections, peer.go
// asks the kernel about the other end, message.go and rights.go move datagrams and
// descriptors, directory.go checks the directory in which sockets lie, wait.go ends a
// server.
//
// Errors have no prefix: the caller adds its own.
package unixsock
