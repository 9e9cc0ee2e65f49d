// Package reason is the ring in which the device says why a completion is an error. The device writes an
// entry before it publishes the error CQE, and the poller of the CQE finds the entry by the number of the
// queue and the index in the CQE, without a system call.
//
// The ring is in the memory of the client's status page, which the client can only read. Each client has
// one. It holds the newest [Entries] reasons; older ones are overwritten.
//
// # Layout
//
// Four words of the status page, 64 bits each, in host order (little-endian):
//
//	256  number of the newest entry; 0: there is none yet
//	264  number of entries, a power of two; 0: this device has no reasons
//	272  bytes of an entry
//	280  offset of the first entry in the memory of the status page
//
// Entry number n, counted from 1, is in slot (n-1) modulo the number of entries. An entry has 512 bytes:
//
//	  0  u64  number of the entry; 0: it is being written
//	  8  u32  number of the queue pair, 24 bits
//	 12  u16  index of the WQE (a block of the send queue) or of the receive
//	 14  u8   what the index counts: 0 blocks of the send queue, 1 receives
//	 15  u8   1: the bytes at 64 are valid
//	 16  u64  number of the entry that says more about the cause; 0: none
//	 24  u32  number of the queue where the cause was; 0: this queue pair
//	 28  u16  index of the cause
//	 30  u8   what that index counts: 0 blocks of the send queue, 1 receives, 2 completions
//	 31  u8   syndrome of the CQE; 0: no CQE has this reason, but flushes follow from it
//	 32  24   code, ASCII, padded with zeros (docs/EXPLANATIONS.md)
//	 56  u16  bytes of the text
//	 64  64   first bytes of the WQE or of the receive, as the device copied them
//	128  384  text, UTF-8
//
// # Which entry belongs to a CQE
//
// An error CQE other than a flush has the newest entry with its queue, index and kind of index. A flush has
// no entry of its own: its cause is the newest entry of its queue pair that is before it. See [Ring.Find].
//
// # Order
//
// The device stores 0 in the number of the slot, then the other words, then the number, then the word at
// 256, and then it publishes the CQE. A reader loads the number before and after the rest. If both are the
// number that it looks for, what it has read is that entry. All stores and loads are of 64-bit words
// (docs/ORDERING.md, number 38).
//
// # Files
//
//   - entry.go: the bytes of an entry
//   - ring.go: Writer, the device's side; Ring, the reader's: which entry belongs to a completion, and
//     whether one was overwritten
//   - kept.go: reasons of completions that were polled, by a number of 32 bits
package reason
