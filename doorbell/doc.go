// Package doorbell encodes the words that tell a device that new work exists or
// how far a consumer has come: doorbell records, in ordinary memory, and the
// registers of a UAR page.
//
// # Terms
//
// A counter numbers 64-byte blocks (send queues) or receives (receive queues,
// SRQs) since the queue was made, 16 bits wide on the wire. A consumer index
// (CI) numbers completions, 24 bits wide. To ring is to write the record, then
// the register.
//
// # Layout
//
// Every word is a big-endian 32-bit number.
//
//	record of a QP, 8 bytes      0 RCV  receives posted        low 16 bits
//	                             4 SND  next free send block   low 16 bits
//	record of an SRQ, 4 bytes    0      receives posted        low 16 bits
//	record of a CQ, 8 bytes      0 SET_CI                      low 24 bits
//	                             4 ARM  29..28 sequence, 24 solicited only, 23..0 CI
//	UAR page, 4 KiB              0x020  CQ arm: ARM word, then CQ number
//	                             0x040  EQ arm
//	                             0x800  doorbell and BlueFlame registers,
//	                                    512 bytes each: two halves that mean the same
//	doorbell                     8 bytes: first half of a control segment
//	BlueFlame                    64..256 bytes: a copy of the WQE itself
//
// # Order
//
// WQE bytes come before the record, the record before the register. A device reads
// the register, then the record, then WQEs up to the record: the record is the
// truth and the register only a hint. Some clients leave the index of the last
// WQE in the register, others the next index; bits above the index's 16 may
// lie in the opmod byte. Only the QPN can be relied on.
//
// The two words of a record have writers of their own (a QP's send and receive
// side may be two threads), so each is stored as 32 bits, never both as 64.
//
// # Source
//
// rdma-core: providers/mlx5/qp.c, cq.c and mlx5dv.h. Values here are numbers
// and bytes; this package does not read or write shared memory.
// Nothing here allocates except Describe, and every function is safe for
// concurrent use.
package doorbell
