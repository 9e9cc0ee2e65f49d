// Package control is the protocol between a client and the device: how a
// client asks for protection domains, keys and queues. It holds the messages
// and their bytes. Clients that send them and servers that answer are elsewhere.
//
// Terms: a request is one datagram with a 16-byte header and a fixed payload;
// every request has one answer with the same operation and tag; descriptors
// travel beside a datagram as ancillary data.
//
// Layout of the header, little-endian:
//
//	0  u16  operation
//	2  u16  flags: 1 = answer, 2 = the answer is an error
//	4  u32  size of the payload in bytes
//	8  u64  tag, chosen by the client, repeated in the answer
//
// A payload is laid out as a C struct: the fields of one message type in order,
// each on a multiple of its size, padded with zeros at the end to a multiple of
// the widest; a text is the rest of the payload, and nothing follows it.
// docs/CONTROL.md lists every field with its offset; a test compares it
// with the code.
package control
