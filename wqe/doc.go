// Package wqe encodes and decodes work queue entries, which a program writes into
// a send or receive queue to ask the device for work.
//
// # Terms
//
// A block is 64 bytes, the unit of a send queue (WQEBB). A unit is 16 bytes,
// the unit of a segment (DS). A send WQE starts on a block boundary with a
// control segment, whose DS field says how many units the WQE has, 1 to 63, so
// at most 16 blocks. The queue is a ring: after its last block comes its first.
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
// [Opcode.Info] says which of them an opcode takes, and every other fact of an
// opcode: docs/OPCODES.md shows the table. Whether an address comes
// first depends on the transport of the queue and is not in the WQE: it is the
// [Address] that [Parse] is given. All numbers are big-endian.
//
// # A receive WQE
//
// A receive WQE has no control segment: it is a list of data segments that
// fills its stride or ends in {0, KeyEnd}. In a shared receive queue 16 bytes
// with the index of the next entry come first. See [PutRecv] and [RecvList].
//
// # Reading and writing
//
// Each segment is a struct with Put and a Parse function over an array of its
// size. Reserved bits are kept, so that parsing and putting back is the
// identity. A [Builder] lays segments into a ring. A [View] reads them out of a
// copy: bytes that another party can still change must not be judged. Nothing here
// allocates, except errors and the Describe functions.
//
// # Files
//
//	opcode.go    the opcodes; info.go and table.go the facts of each
//	ctrl.go      the control segment, and the sizes of WQEs
//	segment.go   remote address, data, atomics; address.go where a message goes;
//	             umr.go changes of keys; special.go the segments of single opcodes
//	build.go     values into a ring
//	view.go      a WQE into segments; kind.go names them; guess.go guesses the
//	             address of a dump
//	recv.go      receive entries
//	describe.go  WQEs for people and programs
//
// Source: rdma-core providers/mlx5/mlx5dv.h (the structures named in the
// comments) and wqe.h; Linux include/linux/mlx5/qp.h and device.h; DPDK
// drivers/common/mlx5/mlx5_prm.h for WAIT.
package wqe
