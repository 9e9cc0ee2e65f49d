//go:build linux && (amd64 || arm64)

// Package codes is the table of what the device can explain: a stable code for each kind
// of fault or suspicion, and beside it what was seen, what hardware does then, the likely
// cause and how to fix it.
//
// An explanation is an event that the engine sends to a client, and a line in its log. It
// carries the name of its code, such as record-word; programs may look for that name in
// events, and people in the log. What the sentence of an explanation says about this very
// WQE is composed where the engine explains it.
//
// docs/EXPLANATIONS.md contains the table. A test compares the two; after a change here:
//
//	go test ./engine/internal/codes -update
package codes

import "fmt"

// A Code is a row of the table. It is a number, so that the engine can only use codes that
// the table explains.
type Code uint8

// The codes, in the order of the table. The table says what each one means.
const (
	RecordWord Code = iota
	RegisterOnly
	RecordByteOrder
	RecordBack
	RecordRange
	PostState

	DSZero
	DSSmall
	DSLarge
	DSPastRecord
	IndexMismatch
	QPNMismatch
	Opcode
	Signature
	InlineRange
	InlineRead
	MessageSize
	AtomicResult
	AtomicAlignment
	MMOLength
	WaitCQ
	EnableQP
	UMRList

	KeyByteOrder
	KeyStale
	KeyUnknown
	KeyDomain
	KeyAccess
	KeyRange
	LengthZero
	KeyUnbound
	KeyWindow
	KeyList
	KeyRefused
	Bind
	SendInval

	ReceiveNone
	ReceiveShort
	ReceiveNoEnd
	ReceiveUnwritten

	PeerMissing
	PeerGone
	PeerState
	PeerTransport
	PeerNotBack
	ResponderRefuses
	UDNobody
	UDQKey

	CQOverrun
	CQNeverPolled
	CQByteOrder
	CQIndex
	EventLost
	MemoryFault
	ProcessMemory
	MemorySlow

	Count // of codes
)

// A meaning is a row of docs/EXPLANATIONS.md.
type meaning struct {
	group string // heading above the row; empty: the row belongs to the group of the one before
	name  string
	seen  string // what the device has seen
	why   string // what hardware does then, and why
	cause string // the likely cause
	fix   string // how to fix it
}

var meanings = [Count]meaning{
	RecordWord: {"Doorbell records and registers", "record-word",
		"Word 0 of the doorbell record counts blocks that the send queue holds as finished WQEs; word 1 has never moved",
		"Word 0 counts receives, word 1 sends. Hardware takes the store for posted receives and executes nothing",
		"The send counter is stored at offset 0 of the record instead of offset 4",
		"Store the send counter, big-endian, at offset 4"},
	RegisterOnly: {"", "register-only",
		"A UAR register names the queue and its first WQE is written, but the send record has never moved",
		"A queue takes its producer index from the record; the register says only that the record changed. (Queues that work without a record are not offered)",
		"The record is never written, is written at another address than the queue was made with, or is written only after a condition that never holds",
		"Store the record before every register write"},
	RecordByteOrder: {"", "record-byte-order",
		"A record whose value makes sense only with its bytes reversed",
		"Records are big-endian. Hardware reads a count of 0, or one beyond the ring, and does nothing",
		"The counter is stored as the CPU has it",
		"Swap the bytes before the store (htobe32)"},
	RecordBack: {"", "record-back",
		"A send record below the count of blocks that have been executed",
		"A count only grows, modulo 2^16. Hardware would take the value for nearly 65536 new blocks; this device ignores it",
		"Two threads ring without synchronisation, the later one with the older count; or the counter was set to 0 without a reset of the queue pair",
		"Ring in the order of the counts; set counters to 0 only when the queue pair goes to RST"},
	RecordRange: {"", "record-range",
		"A send record that announces more blocks than the ring has",
		"Blocks that were never written would be executed; this device ignores the value",
		"The record counts bytes, units of 16 bytes or WQEs instead of blocks of 64 bytes, or the poster does not wait for free blocks",
		"Count blocks; post no more than the ring has until completions say that blocks are free"},
	PostState: {"", "post-state",
		"A send record that has moved while the queue pair is in INIT or RTR",
		"Sends are executed in RTS only; the work waits until then",
		"The last transition, RTR to RTS, is missing",
		"Move the queue pair to RTS on the sending side too"},

	DSZero: {"Work requests", "ds-zero",
		"ds is 0",
		"A WQE has at least its control segment, ds 1. Completes with local QP operation error, 0x02",
		"The WQE was not written before the record was advanced, or at another slot: the device reads zeros",
		"Write the WQE, then the record with release order; slot = index modulo the ring's blocks"},
	DSSmall: {"", "ds-small",
		"ds ends before the segments that the opcode needs",
		"Local QP operation error, 0x02",
		"ds counts data segments only, or the remote address (address vector, operands) was not counted",
		"ds counts all 16-byte units, the control segment included"},
	DSLarge: {"", "ds-large",
		"ds counts a unit beyond those that the opcode needs, and that unit is not a data segment",
		"Everything up to ds is read as data segments. The WQE fails on bytes that were never meant as a key: 0x04, or 0x02 where the sizes cannot be right",
		"ds is in bytes, rounded up to a block, or that of another WQE",
		"Count the 16-byte units of this WQE in ds; the rest of the block does not matter"},
	DSPastRecord: {"", "ds-past-record",
		"ds spans more blocks than the record announces",
		"The rest may not be written yet. Local QP operation error, 0x02",
		"The record was advanced by one for a WQE of several blocks, or too early",
		"Advance by (ds+3)/4 blocks, after the whole WQE is written"},
	IndexMismatch: {"", "index-mismatch",
		"The index in the control segment is not that of the slot. The WQE is executed; this is explained once for each queue pair",
		"The slot decides; other devices may refuse the WQE",
		"The index counts WQEs instead of blocks, or was not advanced",
		"index = number of the WQE's first block since RST, modulo 2^16"},
	QPNMismatch: {"", "qpn-mismatch",
		"The QPN in the control segment is that of another queue. The WQE is executed; this is explained once for each queue pair",
		"The ring decides; other devices may refuse the WQE",
		"A template of another queue pair was copied, or the number is not shifted by 8 bits",
		"Second word: QPN in the upper 24 bits, ds in the low 6, big-endian"},
	Opcode: {"", "opcode",
		"An opcode, or a modifier of an opcode, that this transport does not execute",
		"Local QP operation error, 0x02",
		"A READ or atomic on UC, a WRITE on UD; or the first word is in host byte order",
		"Use an operation of the transport; the first word is big-endian"},
	Signature: {"", "signature",
		"The signature does not match the bytes of the WQE, on a queue pair made with signatures",
		"Local QP operation error, 0x02",
		"The WQE was changed after it was signed, or never signed",
		"Compute the signature last, over ds units"},
	InlineRange: {"", "inline-range",
		"Inline data that ends beyond ds",
		"Local QP operation error, 0x02",
		"ds does not count the inline bytes with their 4 bytes of header, rounded up to 16",
		"ds = units before + (4 + length + 15) / 16"},
	InlineRead: {"", "inline-read",
		"Inline data in a READ or an atomic",
		"Inline data is data to send; the response would have nowhere to go. Local QP operation error, 0x02",
		"The inline flag is set for all short requests",
		"Name memory by a data segment"},
	MessageSize: {"", "message-size",
		"A message longer than the device allows (max_message_log of query_device), or a datagram longer than the MTU",
		"Local length error, 0x01",
		"A list of many large pieces; a stream cut into datagrams that are too long",
		"Cut the message"},
	AtomicResult: {"", "atomic-result",
		"The data segments for the old value have another size than the operand",
		"Local length error, 0x01",
		"The data segment has the length of a buffer",
		"8 bytes, or 4 for the extended forms"},
	AtomicAlignment: {"", "atomic-alignment",
		"An atomic on an address that is not a multiple of its size, or whose bytes do not lie at such a multiple in memory",
		"The responder refuses: remote invalid request, 0x12; both queue pairs go to error",
		"The counter lies behind a header of odd size, or the key counts from an odd place (iova, list entries)",
		"Align the target, and what its key counts from, to 8 bytes (4 for 4-byte forms)"},
	MMOLength: {"", "mmo-length",
		"A DMA copy whose source and target differ in length",
		"Local length error, 0x01",
		"One of the two lengths was not set",
		"Give both data segments the same byte_count"},
	WaitCQ: {"", "wait-cq",
		"WAIT on a completion queue that this client does not have",
		"Local QP operation error, 0x02",
		"The number is of a queue that was destroyed, or is in host byte order",
		"Use the CQN of the answer to create_cq, big-endian"},
	EnableQP: {"", "enable-qp",
		"SEND_EN of a queue pair that this client does not have",
		"Local QP operation error, 0x02",
		"The number is of a queue pair that was destroyed, or is in host byte order",
		"Use the QPN of the answer to create_qp, big-endian"},
	UMRList: {"", "umr-list",
		"A UMR whose inline list ends beyond ds",
		"Local QP operation error, 0x02",
		"klm_octowords does not count what is in the WQE",
		"klm_octowords = 16-byte units of the list, padding included; ds counts them too"},

	KeyByteOrder: {"Keys", "key-byte-order",
		"A key that names nothing, but names something with its bytes reversed",
		"Protection error: 0x04 for an lkey, 0x13 for an rkey",
		"The key is stored as the CPU has it",
		"Swap the bytes before the store (htobe32), once"},
	KeyStale: {"", "key-stale",
		"A key whose index exists, with another variant (low 8 bits)",
		"All 32 bits of a key must match, so that an old key opens nothing new. 0x04 or 0x13",
		"The memory was registered again, or the window bound again, and the old key was kept",
		"Use the key of the last registration or bind, and tell it to peers"},
	KeyUnknown: {"", "key-unknown",
		"A key that names nothing that the queue pair could use",
		"0x04 for an lkey, 0x13 for an rkey",
		"Deregistered memory, a key of another process, or lkey and rkey swapped",
		"Use your own lkeys and the peer's rkeys; deregister after the last completion"},
	KeyDomain: {"", "key-domain",
		"A key of another protection domain than the queue pair's",
		"Protection domains keep the parts of a program apart. 0x04 or 0x13",
		"Memory and queue pair were made with different domains",
		"Make both with the same domain"},
	KeyAccess: {"", "key-access",
		"A key without the right that the operation needs",
		"0x04 for local write, 0x13 for remote rights",
		"The memory was registered without local_write (receives, results of READ and atomics) or the remote right",
		"Register with the rights that are used"},
	KeyRange: {"", "key-range",
		"Bytes that are not wholly inside those of the key",
		"0x04 or 0x13",
		"An offset where the key counts by addresses, an address where it begins at 0, or a length that is too large",
		"Address and length as registered; iova and zero_based decide how a key counts"},
	LengthZero: {"", "length-zero",
		"byte_count 0, which is outside the key's bytes",
		"In a data segment 0 stands for 2^31 bytes",
		"An empty piece was written as a segment",
		"Leave empty pieces out; a message of 0 bytes has no data segment"},
	KeyUnbound: {"", "key-unbound",
		"A memory window that is not bound, or a list key that is not filled",
		"It gives no access: 0x04 or 0x13",
		"The UMR comes after the use, failed, or the window was invalidated (also by a peer's SEND_INVAL)",
		"Wait for the completion of the bind; after an invalidation bind again"},
	KeyWindow: {"", "key-window",
		"A memory window used as lkey, or one of type 2 by another queue pair than its own",
		"Windows open memory to peers; one of type 2 to the peer of one queue pair. 0x04 or 0x13",
		"The rkey of the window was put into a data segment, or given to a peer of another queue pair",
		"Use the region's lkey locally; bind one window for each queue pair"},
	KeyList: {"", "key-list",
		"A list key with an entry whose memory is gone, of another domain, without the right, or too short",
		"0x04 or 0x13",
		"Memory below the list was deregistered",
		"Keep the memory of all entries registered as long as the list is used"},
	KeyRefused: {"", "key-refused",
		"An rkey that does not give another client's memory as it was asked for",
		"0x13. Why is said to the owner of the memory only: others could find keys by it",
		"The key is of an earlier registration, another domain or queue pair, too short, or without the right",
		"See what the owner is told; use the key, address and length that it offers"},
	Bind: {"", "bind",
		"A UMR that asks for a change which cannot be made; the text says which",
		"Memory window bind error, 0x06",
		"A key in use or of another variant, memory without the right to bind windows, a range outside the memory",
		"See the text"},
	SendInval: {"", "send-inval",
		"SEND_INVAL of a key that the sender may not invalidate",
		"Only windows of type 2 bound to the receiving queue pair can be. Remote invalid request, 0x12",
		"The key is of registered memory, or the window was closed before",
		"Invalidate the windows that the peer has offered, once"},

	ReceiveNone: {"Receives", "receive-none",
		"A message for which no receive was posted",
		"RC: asks the sender to wait, rnr_retry times, then 0x16 (RNR retry exceeded) at the sender. UC and UD: the message is lost, the sender learns nothing",
		"Receives are posted after the peer sends, too few, or in a record that is not the queue's",
		"Post receives before the peer may send; rnr_retry 7 waits for ever"},
	ReceiveShort: {"", "receive-short",
		"A message longer than the list of the receive",
		"Local length error, 0x01, at the receiver; remote invalid request, 0x12, at the sender. Datagrams count 40 bytes of GRH",
		"Buffers are smaller than the largest message; those of UD have no room for the GRH",
		"Post larger buffers"},
	ReceiveNoEnd: {"", "receive-no-end",
		"A receive list whose first entries are good and whose next entry names no memory",
		"A list ends at its stride, or with byte_count 0 and lkey 0x100. Without that end, entries of an earlier lap are used, in the worst case silently. 0x04 at the receiver, 0x14 at the sender",
		"A list shorter than the stride was not ended",
		"End it with byte_count 0, lkey 0x100, address 0"},
	ReceiveUnwritten: {"", "receive-unwritten",
		"A message that needs the list of a receive whose bytes are all 0",
		"Key 0 names nothing: 0x04 at the receiver, 0x14 at the sender. (Messages without a payload to scatter, as WRITE with immediate, never look at the list)",
		"The record announces a receive that was not written, or was written at another slot",
		"Write the entry, then the record; slot = count modulo entries, entries are 2^log_rq_stride bytes apart"},

	PeerMissing: {"Peers", "peer-missing",
		"No queue pair had the number of the peer when this one went to RTR. Said then, and with each work request that fails",
		"A connection is made with the queue pair that has the number at RTR, not with one that has it later. Transport retry, exceeded after retry_cnt tries: 0x15. UC: the message is lost",
		"dest_qpn is wrong or not yet known, or the peer ended before",
		"Create both queue pairs, exchange the numbers, then go to RTR"},
	PeerGone: {"", "peer-gone",
		"The queue pair that the connection was made with has ended; another one may have its number now",
		"It does not answer: 0x15 after retry_cnt tries. UC: the message is lost",
		"The peer's process ended, or destroyed its queue pair",
		"Look for the peer's end; connect anew, by way of RST, with another queue pair"},
	PeerState: {"", "peer-state",
		"The peer queue pair is not in RTR or RTS",
		"It does not answer: 0x15 after retry_cnt tries. UC: the message is lost",
		"The peer is not connected yet, or had an error",
		"Take the peer to RTR before this one sends; look for the peer's own error"},
	PeerTransport: {"", "peer-transport",
		"The peer queue pair is of another transport",
		"It does not answer: 0x15. UC: the message is lost",
		"The two ends were created with different types",
		"Create both with one type"},
	PeerNotBack: {"", "peer-not-back",
		"The peer queue pair is connected to another one",
		"A connection has two ends; requests of others are dropped: 0x15. UC: the message is lost",
		"Only one side was given the other's number, or the pairs are crossed",
		"dest_qpn of each must be the number of the other"},
	ResponderRefuses: {"", "responder-refuses",
		"The responder's queue pair does not allow the operation",
		"Remote invalid request, 0x12; both queue pairs go to error. Key and queue pair must both allow it",
		"access of the peer's queue pair lacks the right, or its max_dest_rd_atomic is 0",
		"Set access and max_dest_rd_atomic of the responder when it is connected"},
	UDNobody: {"", "ud-nobody",
		"A datagram to a number that no UD queue pair has",
		"It is lost; the sender learns nothing",
		"The receiver is gone, not in RTR yet, or the address vector has another number",
		"Check dqp_dct of the address vector"},
	UDQKey: {"", "ud-qkey",
		"A datagram with another qkey than the receiver's",
		"It is lost; the sender learns nothing",
		"The two sides agreed on no qkey; a qkey with bit 31 stands for the sender's own",
		"Use the receiver's qkey"},

	CQOverrun: {"Completions and memory", "cq-overrun",
		"No room for a completion",
		"The queue ends, and its queue pairs go to error: a completion that is lost would be worse",
		"The queue is smaller than what can complete before it is polled: signaled sends and receives of all its queue pairs",
		"Make it larger, poll more often, or signal less"},
	CQNeverPolled: {"", "cq-never-polled",
		"No room for a completion, and the consumer index is still 0",
		"The device knows by the consumer index alone what has been polled",
		"Completions are polled, but the index is never stored; or the queue was meant to be made with ignore_overrun",
		"Store the count of polled completions, big-endian, in word 0 of the queue's record"},
	CQByteOrder: {"", "cq-byte-order",
		"No room for a completion; the consumer index makes sense with its bytes reversed",
		"The record is big-endian",
		"The index is stored as the CPU has it",
		"Swap the bytes before the store (htobe32)"},
	CQIndex: {"", "cq-index",
		"No room for a completion; the consumer index went back, or ahead of what was written",
		"An impossible index is ignored",
		"Two threads poll without order, or the index counts bytes or laps",
		"Store the number of completions polled since the queue was made, modulo 2^24"},
	EventLost: {"", "event-lost",
		"A completion event found the socket of its channel full",
		"Hardware has an event queue that must not overrun either",
		"Events are not read",
		"Read the channel until it is empty"},
	MemoryFault: {"", "memory-fault",
		"Memory of a region has no page behind it",
		"The work request fails, and its queue pair goes to error",
		"A file or tmpfs that is full, or was truncated",
		"Allocate the pages beforehand (fallocate)"},
	ProcessMemory: {"", "process-memory",
		"Memory that a program registered, and that the device has not mapped, could not be copied by process_vm_readv or process_vm_writev",
		"Pages that are registered stay where they are on hardware. Here the work request fails: local memory 0x04, the responder's 0x13, its receive 0x0b",
		"EFAULT: the program has unmapped it, or it is read-only. ESRCH: the program has ended, or has executed another one. EPERM: it may no longer be traced by the device, or a seccomp profile forbids the call that is named",
		"Deregister memory before it is unmapped. For EPERM run program and device as one user, and with ptrace_scope 1 of Yama let the program call prctl(PR_SET_PTRACER); where a seccomp profile is named, let it allow the engine that call"},
	MemorySlow: {"", "memory-slow",
		"Memory that work of a queue touches held up the engine's thread for more than 1 ms: there were page faults, and the kernel let the thread wait, or worked for long",
		"Registered memory has its pages on hardware. Here the thread that executes all clients' work waits. Nothing fails, and a client is told about its own memory only; where work touches memory of two clients, both are told",
		"Pages that were swapped out or never touched, a memory cgroup at its limit, huge pages to be cleared; or a program that punches holes into the memory",
		"Touch memory before it is registered, and lock it (mlock). A client that does this again and again, or for long, does it on purpose: end it"},
}

// String returns the name of the code.
func (c Code) String() string {
	if c < Count {
		return meanings[c].name
	}
	return fmt.Sprintf("code %d", uint8(c))
}
