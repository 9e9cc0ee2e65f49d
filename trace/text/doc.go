// Package text writes the events of a trace for people, one line an event, with names in place of numbers, as
// strace(1) does for system calls. A fetch of several WQEs has a line for each of them.
//
//	10:00:00.000001000 client 1 "put" pid 4711
//	10:00:00.000002000 qp 0x51 RC, RTS, client 1 (put, pid 4711), cqs 0x3 and 0x4, …
//	10:00:00.000002100 qp 0x51 doorbell: 1 block from 7 on, record 0x8
//	10:00:00.000002200 qp 0x51 wqe 7 fetched: RDMA_WRITE raddr 0x7f0000001000 rkey 0x51f2a3, …
//	10:00:00.000002700 qp 0x51 wqe 7 executed: RDMA_WRITE, 64 bytes
//	10:00:00.000002800 qp 0x51 wqe 7 completed: SUCCESS RDMA_WRITE; cqe 12 of cq 0x3
//
// The form of the lines is for people and can change; package jsonl writes events for programs. Text that
// clients have given is quoted, so that it cannot change what a terminal shows. The first line of a client
// has its whole name; other lines have its number, program and process id.
//
// # Files
//
//   - printer.go: a line for each event
//   - wqe.go, cqe.go, packet.go: a WQE, a CQE and a packet in one line
//   - words.go: quoting, and lists of names
package text
