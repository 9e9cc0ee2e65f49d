// Package control is the protocol with which a client asks the device for protection
// domains, keys and queues. The package holds the messages and their bytes. Clients that
// send them and servers that answer them are in other packages.
//
// Terms: a request is one datagram with a 16-byte header and a payload of fixed length.
// Every request has one answer, which has the same operation and tag. Descriptors are sent
// with a datagram as ancillary data.
//
// Layout of the header, little-endian:
//
//	0  u16  operation
//	2  u16  flags: 1 = answer, 2 = the answer is an error
//	4  u32  size of the payload in bytes
//	8  u64  tag, chosen by the client and repeated in the answer
//
// A payload is laid out as a C struct. The fields of the message type are in order, each on
// a multiple of its size. At the end, zeros pad the payload to a multiple of the size of the
// widest field. A text is an exception: it is the last field, and no padding follows it.
// docs/CONTROL.md lists every field with its offset; a test compares the list with the code.
//
// Files, in reading order:
//
//	op.go                    operations
//	codec.go error.go        bytes of messages; errors in answers
//	hello.go                 the first request
//	memory.go                protection domains, regions, keys
//	cq.go qp.go peer.go srq.go xrc.go dc.go
//	                         messages about queues
//	announce.go              what clients announce to each other
//	event.go status.go wake.go reply.go
//	                         events and the status page; sleep; descriptors in answers
package control
