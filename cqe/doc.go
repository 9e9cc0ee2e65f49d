// Package cqe encodes completion queue entries, the 64 bytes with which a
// device reports that work is done.
//
// # Terms
//
// A CQ is a ring of 2^log entries. An entry's index is the number of completions
// before it since the CQ was made. Its slot is index mod 2^log and its lap is
// index / 2^log. The requester is the side that posted a send WQE; the responder is
// the side whose receive was consumed.
//
// # Layout
//
// All integers are big-endian. The offsets below are those of a 64-byte entry. The
// second half of a 128-byte entry has the same layout; the first half holds a GRH or
// inline data.
//
//	 0  tunnel, wqe_id, LRO, RSS    Ethernet only; inline data if the format is 1
//	17  ml_path                     low 7 bits: destination path bits
//	22  slid                        source LID
//	24  flags_rqpn                  29..28 GRH, 27..24 SL, 23..0 source QPN
//	32  srqn_uidx                   23..0 user index, or SRQ number
//	36  imm_inval_pkey              immediate, or invalidated rkey
//	44  byte_cnt
//	48  timestamp                   in an error entry byte 54 is the vendor's
//	                                syndrome and byte 55 the syndrome
//	56  sop_drop_qpn                31..24 opcode of the WQE, 23..0 QPN
//	60  wqe_counter
//	62  signature
//	63  op_own                      7..4 opcode, 3..2 format, 1 solicited, 0 owner
//
// # Ownership
//
// The device writes entry i with owner bit lap(i) mod 2. A poller whose consumer
// index is ci reads slot ci mod 2^log. The entry there is new if its opcode is not 15
// and its owner bit is lap(ci) mod 2: see [Valid]. Bytes 56..63 become visible
// together and after all others, so one release store of a [Tail] publishes an entry.
//
// # Files
//
//	layout.go    offsets, and the tail; put.go how a device writes the 64 bytes of an entry
//	opown.go     the last byte: opcode, format, owner
//	cqe.go       whole entries as values
//	wc.go        the work completion that a verbs poller reports for an entry;
//	             sendop.go its table of opcodes
//	syndrome.go  why work failed
//	inline.go    data in an entry ("scatter to CQE")
//	mini.go      compressed sessions; block.go the newer layout of such sessions
//	describe.go  lists the fields of entries for people and programs; names.go names them
//
// # Source
//
// rdma-core: struct mlx5_cqe64 and struct mlx5_err_cqe in mlx5dv.h, and
// providers/mlx5/cq.c. Compression: the Linux kernel's mlx5 driver and DPDK.
//
// # Cost
//
// Functions that encode, decode, compress or expand do not allocate. Any goroutine
// may use the values of this package.
package cqe
