// Package packet encodes and decodes the packets of the InfiniBand transport, and of
// RoCEv2, which carries them over UDP.
//
// # A packet
//
//	BTH 12 · extension headers · payload · pad 0 to 3 · ICRC 4
//
// The opcode in the base transport header (BTH) says which extension headers follow and
// whether there is a payload. [Opcode.Info] has these facts and the place of each header. Pad
// bytes make the payload a multiple of four bytes. The invariant CRC (ICRC) is there only
// if the packet crosses a network. All numbers are big-endian, except the ICRC, which is
// little-endian.
//
//	RDMA WRITE ONLY with immediate       atomic ACKNOWLEDGE
//	 0 BTH                                0 BTH
//	12 RETH: address, rkey, length       12 AETH: syndrome, MSN
//	28 ImmDt                             16 AtomicAckETH: the value before
//	32 payload                           24 ICRC
//
// Masked atomics are operations of our own: see [MaskedCompareSwap].
//
//	MASKED COMPARE SWAP, 8 bytes         MASKED FETCH ADD, 4 bytes
//	 0 BTH                                0 BTH
//	12 RETH: address, rkey, 8            12 RETH: address, rkey, 4
//	28 swap, compare                     28 add, boundary: 4 bytes each
//	44 masks of swap and of compare      36 8 bytes, ignored
//
// # Reading and writing
//
// Each header is a struct with a Put method and a Parse function, both over a byte array of
// the header's size. Parsing keeps reserved bits, so that Put writes the same bytes again.
// Put drops bits of a field beyond its width. These functions allocate no memory, and no
// value of any byte is an error for them: the caller checks values.
//
// A [Flow] seals packets with the ICRC and checks it.
//
// Packet sequence numbers (PSN) have 24 bits and wrap. Compare them with [DiffPSN] only.
//
// # Files
//
//	opcode.go      services, operations and opcodes
//	info.go        the facts of each opcode; table.go the table
//	bth.go         the base transport header
//	header.go      the extension headers
//	aeth.go        the ACK extended header, its syndromes, and RNR timers
//	psn.go         arithmetic of packet sequence numbers
//	icrc.go        the ICRC over IPv4 and IPv6; crc.go its tables
//	describe.go    lists the fields of a packet for people and programs; describe_ip.go those of
//	               the IP and UDP headers; describe_atomic.go those of masked atomics; mad.go those of
//	               management datagrams
//
// Source: InfiniBand Architecture Specification, volume 1, chapter 9 and annex A17 (RoCEv2). Packets
// recorded from Linux's software RoCE decide what the text leaves open (testdata/vectors/roce.json).
package packet
