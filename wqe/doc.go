// Package wqe encodes and decodes work queue entries, which a program writes into
// a send or receive queue to request work of the device.
//
// # Terms
//
// A block is 64 bytes (WQEBB); the size of a send queue is counted in blocks. A
// unit is 16 bytes; the size of a segment or of a WQE is counted in units. A send
// WQE starts on a block boundary with a control segment. The DS field of the
// control segment says how many units the WQE has: 1 to 63, which is at most 16
// blocks. The queue is a ring: a WQE that reaches the last block continues in the
// first.
//
// # A send WQE
//
//	control · [address | XRC] · [Ethernet] · [remote address] · [operand] · data
//
//	RDMA WRITE, one pointer         RDMA WRITE, 20 bytes inline
//	 0 control       ds 3            0 control       ds 4
//	16 remote address               16 remote address
//	32 data: length, lkey, address  32 inline: length, 12 bytes
//	48 unused, may be stale         48 8 bytes, padding
//
// [Opcode.Info] says which of these segments an opcode takes; it holds all other
// facts of the opcode too. docs/OPCODES.md shows the table. Whether an address or
// XRC segment comes after the control segment depends on the transport of the
// queue. The bytes of the WQE do not say whether there is one, so the caller of
// [Parse] says it by an [Address]. All numbers are big-endian.
//
// # A receive WQE
//
// A receive WQE has no control segment. It is a list of data segments that either
// fills the entry of the queue (the stride) or ends with a segment of byte count 0
// and lkey KeyEnd.
// In a shared receive queue the list comes after 16 bytes that hold the index of
// the next entry. See [PutRecv] and [RecvList].
//
// # Reading and writing
//
// Each segment is a struct with a Put method and a Parse function, both over a
// byte array of the segment's size. Parsing keeps reserved bits, so that Put
// writes the same bytes again. A [Builder] writes segments into a ring. A [View]
// reads the segments of a private copy of a WQE, because bytes that another
// process can still change must not be checked in place. Only errors and the
// Describe functions allocate.
//
// # Files
//
//	opcode.go    the opcodes; info.go and table.go the facts of each
//	ctrl.go      the control segment, and the sizes of WQEs
//	segment.go   remote address, data, atomics; address.go where a message goes;
//	             umr.go changes of keys; special.go the segments of single opcodes
//	build.go     writes a WQE into a ring
//	short.go     the words of a WQE of one block, for the fast paths of posters and device
//	view.go      divides a WQE into segments; kind.go names the kinds of segment;
//	             infer.go infers the address of a WQE in a dump
//	recv.go      receive entries
//	describe.go  lists the fields of a WQE for people and programs;
//	             describe_segment.go those of one segment
//
// Source: rdma-core providers/mlx5/mlx5dv.h (the structures named in the
// comments) and wqe.h; Linux include/linux/mlx5/qp.h and device.h; DPDK
// drivers/common/mlx5/mlx5_prm.h for WAIT.
package wqe
