// Package boxes keeps the messages that clients send each other: short ones, by which programs that have no
// other connection agree on one.
//
// A client that expects messages opens a box. Its number is a random one of 64 bits, and who knows it may
// send. So the client decides who may, by whom it tells: all who may read its announcement, or only the
// client to which it has sent something itself. A number may become known to others. So a Dial, with which a
// connection begins, gets only to a client that has announced names to the user who dials, or to all. The
// user is the kernel's word for clients of this engine, and that of the other engine over a pool or UCX.
//
// Messages are datagrams: a box that does not exist drops them, and one that is full drops them from the
// sender that has the most in it. Their senders send again.
//
// Files:
//
//	boxes.go  Office: opens and closes boxes, and what is in them
package boxes
