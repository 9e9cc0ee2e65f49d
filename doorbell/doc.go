// Package doorbell encodes the words that notify a device that new work exists or
// how many completions a consumer has taken. These words are doorbell records, in
// ordinary memory, and the registers of a UAR page.
//
// # Terms
//
// A record is a doorbell record. A counter counts 64-byte blocks (send queues) or
// receives (receive queues and SRQs) since the queue was made; a record holds its low
// 16 bits. A consumer index (CI) counts completions; a record holds its low 24 bits. To
// ring is to write the record and then the register.
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
//	                                    512 bytes each: two halves with the same meaning
//	                             0x600  doorbell of clients without records (DOCA)
//	doorbell                     8 bytes: first half of a control segment
//	BlueFlame                    64..256 bytes: a copy of the WQE itself
//
// # Order
//
// A client writes the WQE bytes first, then the record, then the register. A device
// reads the register, then the record, then the WQEs up to the counter in the record.
// The record decides which WQEs exist; the register is only a hint. Some clients write
// the index of the last WQE to the register, others the index of the next free block. If
// a client does not cut the index to 16 bits, the higher bits are in the opmod byte. Only
// the QPN in the register is reliable.
//
// There are queues whose record is not written (mlx5: send_dbr_mode 1 and 2). Then the register decides.
// ds says which form it has: if ds is 0, the index is that of the next free block. Otherwise the 8 bytes
// are those of the last WQE, which begins at the index and has ds units. Either form may be the beginning
// of a BlueFlame copy.
//
// The two words of a record may have two writers, because the send side and the
// receive side of a QP may be two threads. So each word is stored with a 32-bit store,
// and never both words with one 64-bit store.
//
// # Files
//
//	record.go    doorbell records: their words, and how far a word is ahead
//	arm.go       arm requests of CQs, in a record and in the register of a UAR page
//	ring.go      the 8 bytes that ring a doorbell register
//	uar.go       where the registers of a UAR page are
//	describe.go  lists the fields of records and registers for people and programs
//
// # Source
//
// rdma-core: providers/mlx5/qp.c, cq.c and mlx5dv.h. Values here are numbers and bytes; this package does
// not read or write shared memory. Only Describe allocates memory, and every function is safe for
// concurrent use.
package doorbell
