//go:build linux && (amd64 || arm64)

// Package codes is the table of what the device can explain. Each kind of fault or suspicion
// has a row: a stable code, what the device has seen, what hardware does then, the likely
// cause, and how to fix it.
//
// An explanation is an event that the engine sends to a client, and a line in its log. It
// carries the name of its code, for example record-word. Programs may look for the name in
// events, and people in the log. The sentence of an explanation describes one WQE or queue;
// the engine composes it where it finds the fault.
//
// docs/EXPLANATIONS.md contains the table. A test compares the two; after a change here:
//
//	go test ./engine/internal/codes -update
package codes

import "fmt"

// A Code is a row of the table. It is a number, so that the engine can only use codes that
// the table explains.
type Code uint8

// The codes, in the order of the table.
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
	ResponderFailed
	QPMoved
	EngineStops
	XRCSRQ
	DCNoTarget
	DCKey
	DCStream
	UDNoReceiver
	UDQKey

	PeerSilent
	LinkNone
	LinkDown
	LinkRefused
	LinkResponse
	LinkPlace
	LinkLength
	LinkAtomic
	LinkScan
	WQEChanged

	CQOverrun
	CQNeverPolled
	CQByteOrder
	CQIndex
	EventLost
	MemoryFault
	ProcessMemory
	MemorySlow

	Count // number of codes
)

// A meaning is a row of docs/EXPLANATIONS.md.
type meaning struct {
	group string // heading above the row; empty: the row belongs to the group of the row before
	name  string
	seen  string // what the device has seen
	why   string // what hardware does then, and why
	cause string // the likely cause
	fix   string // how to fix it
}

var meanings = [Count]meaning{
	RecordWord: {"Doorbell records and registers", "record-word",
		"Word 0 of the doorbell record is the number of blocks of complete WQEs in the send queue; word 1 has never changed",
		"Word 0 counts receives, and word 1 counts send blocks. Hardware takes the value in word 0 as a count of posted receives, and executes nothing",
		"The send counter is stored at offset 0 of the record instead of offset 4",
		"Store the send counter, big-endian, at offset 4"},
	RegisterOnly: {"", "register-only",
		"A UAR register names the queue, and the first WQE of the queue is written, but the send record has never changed",
		"A queue takes its producer index from the record; the register only says that the record has changed. (This device has no queues that work without a record)",
		"The record is never written, or is written at an address other than that given when the queue was made, or is written only after a condition that never becomes true",
		"Store the record before every register write"},
	RecordByteOrder: {"", "record-byte-order",
		"The value of a record makes sense only with its bytes reversed",
		"Records are big-endian. Hardware reads a count of 0, or a count beyond the ring, and does nothing",
		"The counter is stored in host byte order",
		"Swap the bytes before the store (htobe32)"},
	RecordBack: {"", "record-back",
		"The count in a send record is less than the number of blocks that have been executed",
		"The count only grows, modulo 2^16. Hardware would read the value as nearly 65536 new blocks; this device ignores it",
		"Two threads ring without synchronisation, and the thread that rings later has the older count; or the counter was set to 0 without a reset of the queue pair",
		"Ring in the order of the counts; set counters to 0 only when the queue pair goes to RST"},
	RecordRange: {"", "record-range",
		"A send record announces more blocks than the ring has",
		"Hardware would execute blocks that were never written; this device ignores the value",
		"The record counts bytes, units of 16 bytes or WQEs instead of blocks of 64 bytes, or the poster does not wait for free blocks",
		"Count blocks. Do not post more blocks than are free: completions say which blocks are free again"},
	PostState: {"", "post-state",
		"A send record has changed while the queue pair is in INIT or RTR",
		"Sends are executed only in RTS, so the work waits until the queue pair is in RTS",
		"The last transition, RTR to RTS, is missing",
		"On the sending side too, move the queue pair to RTS"},

	DSZero: {"Work requests", "ds-zero",
		"ds is 0",
		"A WQE has at least its control segment, so ds is at least 1. Local QP operation error, 0x02",
		"The WQE was written after the record was advanced, or in another slot, so the device reads zeros",
		"Write the WQE, then the record with release order; slot = index modulo the number of blocks in the ring"},
	DSSmall: {"", "ds-small",
		"ds is too small to include all segments that the opcode needs",
		"Local QP operation error, 0x02",
		"ds counts only data segments, or does not count the remote address, the address vector or the operands",
		"ds is the number of all 16-byte units, including the control segment"},
	DSLarge: {"", "ds-large",
		"ds counts a unit after those that the opcode needs, and that unit is not a data segment",
		"All units up to ds are read as data segments. The WQE fails because of bytes that were not meant as a key (0x04), or because the sizes of its segments cannot be right (0x02)",
		"ds is in bytes, is rounded up to a whole block, or belongs to another WQE",
		"Count in ds only the 16-byte units of this WQE; the rest of its last block does not matter"},
	DSPastRecord: {"", "ds-past-record",
		"ds spans more blocks than the record announces",
		"Perhaps the blocks that are not announced have not been written yet. Local QP operation error, 0x02",
		"The record was advanced by 1 for a WQE of several blocks, or was advanced too early",
		"Advance the record by (ds+3)/4 blocks, after the whole WQE is written"},
	IndexMismatch: {"", "index-mismatch",
		"The index in the control segment is not that of the slot. The WQE is executed; the mistake is explained once for each queue pair",
		"The device goes by the slot; other devices may refuse the WQE",
		"The index counts WQEs instead of blocks, or was not advanced",
		"index = number of blocks posted since RST before this WQE, modulo 2^16"},
	QPNMismatch: {"", "qpn-mismatch",
		"The QPN in the control segment is not that of this queue. The WQE is executed; the mistake is explained once for each queue pair",
		"The device goes by the ring; other devices may refuse the WQE",
		"A template of another queue pair was copied, or the QPN is not shifted left by 8 bits",
		"The second word of the control segment is big-endian, with the QPN in the upper 24 bits and ds in the low 6 bits"},
	Opcode: {"", "opcode",
		"The device does not execute the opcode, or the modifier of the opcode, on this transport",
		"Local QP operation error, 0x02",
		"A READ or an atomic on UC, or a WRITE on UD, or the first word is in host byte order",
		"Use an operation that the transport has; store the first word big-endian"},
	Signature: {"", "signature",
		"On a queue pair made with signatures, the signature does not match the bytes of the WQE",
		"Local QP operation error, 0x02",
		"The WQE was changed after it was signed, or was never signed",
		"Compute the signature last, over all ds units"},
	InlineRange: {"", "inline-range",
		"Inline data ends after the last unit that ds counts",
		"Local QP operation error, 0x02",
		"ds does not count the inline data with its 4-byte header, rounded up to units of 16 bytes",
		"ds = units before the inline data + (4 + length + 15) / 16"},
	InlineRead: {"", "inline-read",
		"A READ or an atomic has inline data",
		"Inline data is data to send, so the response would have no destination. Local QP operation error, 0x02",
		"The inline flag is set for every short request",
		"Name memory with a data segment"},
	MessageSize: {"", "message-size",
		"A message is longer than the device allows (max_message_log of query_device), or a datagram is longer than the MTU",
		"Local length error, 0x01",
		"A list of many large pieces, or a stream that was cut into datagrams that are too long",
		"Cut the message into shorter ones"},
	AtomicResult: {"", "atomic-result",
		"The data segments for the old value do not have the size of the operand",
		"Local length error, 0x01",
		"The data segment has the length of a whole buffer",
		"Use 8 bytes, or 4 for the extended atomics of 4 bytes"},
	AtomicAlignment: {"", "atomic-alignment",
		"The address of an atomic, or the place of its bytes in memory, is not a multiple of its size",
		"The responder refuses the request: remote invalid request, 0x12. Both queue pairs go to error",
		"The target follows a header of odd size, or the range of the key begins at an address that is not aligned (iova, list entries)",
		"Align the target, and the beginning of the range of its key, to 8 bytes (to 4 bytes for atomics of 4 bytes)"},
	MMOLength: {"", "mmo-length",
		"The source and the target of a DMA copy differ in length",
		"Local length error, 0x01",
		"One of the two lengths was not set",
		"Give both data segments the same byte_count"},
	WaitCQ: {"", "wait-cq",
		"A WAIT names a completion queue that this client does not have",
		"Local QP operation error, 0x02",
		"The number is that of a queue that was destroyed, or is in host byte order",
		"Use the CQN from the answer to create_cq, big-endian"},
	EnableQP: {"", "enable-qp",
		"A SEND_EN names a queue pair that this client does not have",
		"Local QP operation error, 0x02",
		"The number is that of a queue pair that was destroyed, or is in host byte order",
		"Use the QPN from the answer to create_qp, big-endian"},
	UMRList: {"", "umr-list",
		"The inline list of a UMR ends after the last unit that ds counts",
		"Local QP operation error, 0x02",
		"klm_octowords is not the length of the list in the WQE",
		"klm_octowords = number of 16-byte units of the list, including padding; ds counts these units too"},

	KeyByteOrder: {"Keys", "key-byte-order",
		"A key names nothing, but names something with its bytes reversed",
		"Local protection error, 0x04, for an lkey; remote access error, 0x13, for an rkey",
		"The key is stored in host byte order",
		"Swap the bytes before the store (htobe32), and only once"},
	KeyStale: {"", "key-stale",
		"The index of a key exists, but with another variant (the low 8 bits)",
		"All 32 bits of a key must match, so that an old key gives no access to new memory. 0x04 or 0x13",
		"The memory was registered again, or the window was bound again, and the program still uses the old key; or the low 8 bits of the key are wrong",
		"Use the key of the last registration or bind as it is, and tell the new key to peers"},
	KeyUnknown: {"", "key-unknown",
		"A key names nothing that the queue pair could use",
		"0x04 for an lkey, 0x13 for an rkey",
		"The memory was deregistered, or the key is of another process, or lkey and rkey are swapped",
		"Use your own lkeys and the peer's rkeys; deregister after the last completion"},
	KeyDomain: {"", "key-domain",
		"The key and the queue pair have different protection domains",
		"Protection domains keep the parts of a program apart. 0x04 or 0x13",
		"The memory was registered in one domain, and the queue pair was made in another",
		"Use the same domain for both"},
	KeyAccess: {"", "key-access",
		"The key does not give the right that the operation needs",
		"0x04 if local_write is missing, 0x13 if a remote right is missing",
		"The memory was registered without the remote right, or without local_write. (Receives need local_write, and so do the results of READs and atomics)",
		"Register the memory with the rights that are used"},
	KeyRange: {"", "key-range",
		"Not all bytes are inside the range of the key",
		"0x04 or 0x13",
		"The work request gives an offset although the key uses addresses, or an address although the key begins at 0, or the length is too large",
		"Use address and length as registered. iova and zero_based decide which addresses a key uses"},
	LengthZero: {"", "length-zero",
		"A data segment has byte_count 0, and the range that this stands for is not inside the range of the key",
		"In a data segment, byte_count 0 stands for 2^31 bytes",
		"A piece of 0 bytes was written as a segment",
		"Leave pieces of 0 bytes out; a message of 0 bytes has no data segment"},
	KeyUnbound: {"", "key-unbound",
		"The key is that of a memory window that is not bound, or of a list that is not filled",
		"Such a key gives no access: 0x04 or 0x13",
		"The UMR comes after the use of the key, or has failed, or the window was invalidated (a peer's SEND_INVAL does that too)",
		"Wait for the completion of the bind before you use the key; bind again after an invalidation"},
	KeyWindow: {"", "key-window",
		"The key of a memory window is used as an lkey, or a window of type 2 is used on a queue pair other than its own",
		"A window gives access to peers only, and a window of type 2 only to the peer of one queue pair. 0x04 or 0x13",
		"The rkey of the window was put into a data segment, or was given to the peer of another queue pair",
		"Use the lkey of the registered memory for local access; bind one window for each queue pair"},
	KeyList: {"", "key-list",
		"An entry of a list names memory that is gone, is of another domain, does not give the right, or is too short",
		"0x04 or 0x13",
		"Memory that the list names was deregistered",
		"Keep the memory of all entries registered while the list is used"},
	KeyRefused: {"", "key-refused",
		"An rkey does not give the access to another client's memory that the work request asks for",
		"0x13. The reason is told only to the owner of the memory, because other clients could find keys with its help",
		"The key is of an earlier registration, of another domain or of another queue pair, or its range is too short, or it does not give the right",
		"Read what the owner is told; use the key, address and length that the owner offers"},
	Bind: {"", "bind",
		"A UMR asks for a change that cannot be made; the text says which change",
		"Memory window bind error, 0x06",
		"The key is in use or has another variant, or the memory was registered without mw_bind, or the range is not inside the memory",
		"Read the text"},
	SendInval: {"", "send-inval",
		"A SEND_INVAL names a key that the sender may not invalidate",
		"Only windows of type 2 that are bound to the receiving queue pair can be invalidated. Remote invalid request, 0x12",
		"The key is that of registered memory, or the window was invalidated before",
		"Invalidate only windows that the peer has offered, and each only once"},

	ReceiveNone: {"Receives", "receive-none",
		"No receive was posted for a message",
		"RC: the responder tells the sender to wait and retry, up to rnr_retry times; then RNR retry exceeded, 0x16, at the sender. UC and UD: the message is lost, and the sender is not told",
		"Receives are posted after the peer sends, or too few are posted, or they are announced in a record that is not the queue's",
		"Post receives before the peer may send; with rnr_retry 7 the sender waits for ever"},
	ReceiveShort: {"", "receive-short",
		"A message is longer than all entries of the receive's list together",
		"Local length error, 0x01, at the receiver; remote invalid request, 0x12, at the sender. A datagram takes 40 bytes more, for the GRH",
		"Buffers are smaller than the largest message, or buffers of UD have no room for the GRH",
		"Post larger buffers"},
	ReceiveNoEnd: {"", "receive-no-end",
		"In the list of a receive the first entries are good, and the next entry names no memory",
		"A list ends at the stride of the queue, or with byte_count 0 and lkey 0x100. Without such an end, entries from an earlier lap of the ring are used, in the worst case without any error. 0x04 at the receiver, 0x14 at the sender",
		"A list that is shorter than the stride was not ended",
		"End the list with byte_count 0, lkey 0x100 and address 0"},
	ReceiveUnwritten: {"", "receive-unwritten",
		"A message needs the list of a receive, and the bytes of the list are all 0",
		"Key 0 names nothing: 0x04 at the receiver, 0x14 at the sender. (A message without a payload to scatter, such as a WRITE with immediate, does not use the list)",
		"The record announces a receive that was not written, or was written in another slot",
		"Write the entry, then the record. slot = count modulo the number of entries; entries are 2^log_rq_stride bytes apart"},

	PeerMissing: {"Peers", "peer-missing",
		"No queue pair had the number of the peer when this queue pair went to RTR. This is explained then, and with each work request that fails",
		"A connection is made with the queue pair that has the number at RTR, not with one that gets the number later. RC: transport retry exceeded, 0x15, after retry_cnt tries. UC: the message is lost",
		"dest_qpn is wrong, or was not yet known, or the peer had already ended, or it belongs to another engine (`--private`, another user): a GID that both engines have is that of the own engine, so programs of two engines on one host use GID 0",
		"Create both queue pairs, exchange their numbers, then go to RTR"},
	PeerGone: {"", "peer-gone",
		"The queue pair with which the connection was made has ended; another queue pair may have its number now",
		"The peer does not answer. RC: 0x15 after retry_cnt tries. UC: the message is lost",
		"The peer's process has ended, or has destroyed its queue pair",
		"Find out why the peer ended; go to RST, then connect with another queue pair"},
	PeerState: {"", "peer-state",
		"The peer queue pair is not in RTR or RTS",
		"The peer does not answer. RC: 0x15 after retry_cnt tries. UC: the message is lost",
		"The peer is not connected yet, or has had an error",
		"Take the peer to RTR before this queue pair sends; look for the peer's own error"},
	PeerTransport: {"", "peer-transport",
		"The peer queue pair is of another transport",
		"The peer does not answer. RC: 0x15. UC: the message is lost",
		"The two queue pairs were created with different types",
		"Create both with the same type"},
	PeerNotBack: {"", "peer-not-back",
		"The peer queue pair is connected to another queue pair",
		"A queue pair drops requests of any queue pair that is not its peer. RC: 0x15. UC: the message is lost",
		"Only one side was given the number of the other, or the numbers of several pairs are mixed up",
		"dest_qpn of each queue pair must be the number of the other"},
	ResponderRefuses: {"", "responder-refuses",
		"The responder's queue pair does not allow the operation",
		"The key and the queue pair must both allow an operation. Remote invalid request, 0x12; both queue pairs go to error",
		"The access rights of the responder's queue pair lack the right, or its max_dest_rd_atomic is 0",
		"Set access and max_dest_rd_atomic of the responder's queue pair when you connect it"},
	ResponderFailed: {"", "responder-failed",
		"The responder has answered a request with a NAK whose reason is not the requester's to know. It is in the completion of the requester, and in no event",
		"A NAK has no reason. Remote invalid request, 0x12, remote access, 0x13, or remote operation, 0x14",
		"A receive of the responder is too short, or names memory that it may not use",
		"See the explanation that the responder's client gets"},
	QPMoved: {"", "qp-moved",
		"The client has moved a queue pair to ERR or SQE (modify_qp). It is in the completions that are flushed, and in no event",
		"The WQEs and receives that are left are flushed, 0x05",
		"The program ends a connection",
		"Nothing, if it was meant. Otherwise find the call of ibv_modify_qp"},
	EngineStops: {"", "engine-stops",
		"The engine stops, and has work of a queue pair left. It is in the completions that are flushed, and in no event",
		"The WQEs and receives that are left are flushed, 0x05",
		"Somebody has ended the engine, or the program has closed the context",
		"Wait for the completions of all work before the engine ends"},
	XRCSRQ: {"", "xrc-srq",
		"The XRC segment of a WQE names no shared receive queue of the XRC domain to which the peer's receiving queue pair belongs",
		"A message reaches only the queues of one XRC domain. Remote invalid request, 0x12; both queue pairs go to error",
		"The number is that of a queue that was destroyed, of an ordinary SRQ or of a queue in another domain, or the number was not asked for with ibv_get_srq_num",
		"Send the number that ibv_get_srq_num returns. Open the domain by the same file in all processes"},
	DCNoTarget: {"", "dc-nobody",
		"The address vector of a DCI's WQE leads to no DCT that receives",
		"Nobody answers. Transport retry counter exceeded, 0x15; the DCI goes to error",
		"The DCT is not in RTR yet (its number is known only then) or was destroyed; or the address vector has another number or address, or is missing",
		"Send qp_num as it is after the DCT's transition to RTR, and make the address handle for the DCT's GID or LID"},
	DCKey: {"", "dc-key",
		"The access key in the address vector of a DCI's WQE is not that of the DCT",
		"A DCT drops such requests. Transport retry counter exceeded, 0x15; the DCI goes to error",
		"The two sides have not agreed on a key, or the key is in host byte order",
		"Use the dct_access_key with which the DCT was created, big-endian in the WQE"},
	DCStream: {"", "dc-stream",
		"A work request of a DCI is of a stream of which an earlier one has failed",
		"Work requests of a failed stream are flushed, 0x05, until the stream or the queue pair is reset",
		"The program posts to the stream before it has read that completion",
		"Reset the stream with mlx5dv_dci_stream_id_reset when a completion says that it has failed"},
	UDNoReceiver: {"", "ud-nobody",
		"A datagram names a QPN that no UD queue pair has",
		"The datagram is lost, and the sender is not told",
		"The receiver has ended or is not in RTR yet, or the address vector has the number of another queue",
		"Check dqp_dct in the address vector"},
	UDQKey: {"", "ud-qkey",
		"The qkey of a datagram is not that of the receiver",
		"The datagram is lost, and the sender is not told",
		"The two sides have not agreed on a qkey. (A qkey with bit 31 in a work request stands for the qkey of the sender's queue pair)",
		"Use the receiver's qkey"},

	PeerSilent: {"Links to other devices", "peer-silent",
		"The peer on another device does not acknowledge the packets of a queue pair",
		"The requester sends again retry_cnt times. Transport retry counter exceeded, 0x15",
		"The peer has ended, is not in RTR, or is connected to another queue pair or from another address; or the network loses packets, or a firewall drops UDP port 4791; or, on a link with keys, the two engines have no session",
		"Look at the counts of the link with nicless links, on both sides: strangers are packets that no queue pair expects; on a link with keys, nicless links says why there is no session"},
	LinkNone: {"", "link-none",
		"No link leads to the address that a queue pair or a datagram names",
		"A NIC would send to the next router. The connection is refused; a datagram is dropped",
		"The address is wrong, or its link is not open or forbidden",
		"Open the link, or choose an address that a link leads to: nicless links lists them"},
	LinkDown: {"", "link-down",
		"The link to the peer's device is down or has been closed",
		"The requester retries until its retries run out, as with a cable that was pulled. Transport retry counter exceeded, 0x15",
		"The other engine or the carrier has ended, or the network interface is down",
		"Start the other side again; the link comes back by itself. Then connect new queue pairs"},
	LinkRefused: {"", "link-refused",
		"The responder on another device has answered with a NAK",
		"The work request fails as it does within one device: 0x12 invalid request, 0x13 access, 0x14 operation; both queue pairs go to error",
		"What the code of the other side's explanation says: a wrong key, address or right, no receive that is long enough",
		"Read the explanation at the other side"},
	LinkResponse: {"", "link-response",
		"The answer of a READ or an atomic does not fit the request",
		"Bad response error, 0x10; the queue pair goes to error",
		"The path MTUs of the two sides differ, or the other side does not keep to the protocol",
		"Set the same path_mtu on both sides"},
	LinkPlace: {"", "link-place",
		"A packet does not fit its place in a message: one that begins a message within another, one that continues none, or more READs than max_dest_rd_atomic",
		"The responder answers with the NAK invalid request; both queue pairs go to error",
		"The other side allows itself more READs than this side, or does not keep to the protocol",
		"max_rd_atomic of a side must not exceed max_dest_rd_atomic of the other"},
	LinkLength: {"", "link-length",
		"The payload of a packet is longer or shorter than its place in a message allows",
		"The responder answers with the NAK invalid request; both queue pairs go to error. On an unreliable connection the message is lost",
		"The path MTUs of the two sides differ",
		"Set the same path_mtu on both sides"},
	LinkAtomic: {"", "link-atomic",
		"A masked atomic, or one of 4 bytes, is posted to a queue pair whose peer is on another device",
		"The InfiniBand transport has packets for FETCH_ADD and COMPARE_SWAP of 8 bytes only. Two mlx5 devices would use packets of their own. Local QP operation error, 0x02",
		"The program uses extended atomics",
		"Use 8-byte FETCH_ADD or COMPARE_SWAP, or connect the queue pairs within one engine"},
	LinkScan: {"", "link-scan",
		"Many packets have come from the address of a peer on another device whose PSNs the peer would not use: thousands in a few seconds, or 512 a second for long",
		"A NIC drops or repeats each of them and counts it at most. One that guesses the PSN is executed, if its key is right, or ends the connection. The device drops most of what comes by this path as long as that lasts, so that all PSNs take 9 hours, and no request that fails ends the connection. The queue pair stays; its peer may wait, and its retries may run out",
		"Another user on the peer's host, or somebody who forges the peer's address, tries to find the PSN and knows the number of the queue pair and a key. Or the two sides were connected with different PSNs: sq_psn of one must be rq_psn of the other",
		"Find out who sends from the peer's address. Use a link with keys, where packets of others are dropped. Give keys only to those who need them"},
	WQEChanged: {"", "wqe-changed",
		"A WQE has other bytes than when the device began to send it",
		"A NIC reads a WQE again when it has to send packets again, so its bytes must stay until it has completed. Local QP operation error, 0x02",
		"The program writes the next WQE over one that has not completed: it counts more room than the ring has",
		"Reuse the blocks of a WQE only after a completion of it or of a later one"},

	CQOverrun: {"Completions and memory", "cq-overrun",
		"The completion queue has no room for a completion",
		"The completion queue ends, and its queue pairs go to error, because a lost completion would be worse",
		"Between two polls, all its queue pairs together can complete more signaled sends and receives than the queue has entries",
		"Make the queue larger, poll it more often, or signal fewer sends"},
	CQNeverPolled: {"", "cq-never-polled",
		"The completion queue has no room for a completion, and its consumer index is still 0",
		"The device knows only from the consumer index what has been polled",
		"Completions are polled, but the consumer index is never stored; or the queue should have been made with ignore_overrun",
		"Store the number of polled completions, big-endian, in word 0 of the queue's record"},
	CQByteOrder: {"", "cq-byte-order",
		"The completion queue has no room for a completion, and its consumer index makes sense with its bytes reversed",
		"The record is big-endian",
		"The index is stored in host byte order",
		"Swap the bytes before the store (htobe32)"},
	CQIndex: {"", "cq-index",
		"The completion queue has no room for a completion, and its consumer index has gone back, or is ahead of what was written",
		"The device ignores an index that is not possible",
		"Two threads poll without synchronisation, or the index counts bytes or laps",
		"Store the number of completions polled since the queue was made, modulo 2^24"},
	EventLost: {"", "event-lost",
		"A completion event found the socket of its channel full",
		"Hardware too has an event queue, which must not overrun",
		"The program does not read its events",
		"Read the channel until it is empty"},
	MemoryFault: {"", "memory-fault",
		"There is no page for a part of a region's memory",
		"The work request fails, and its queue pair goes to error",
		"The region is in a file that was truncated, or in a file system or tmpfs that is full",
		"Allocate the pages beforehand (fallocate)"},
	ProcessMemory: {"", "process-memory",
		"A copy of registered memory failed. The device has not mapped this memory, so the kernel copies it by process_vm_readv and process_vm_writev",
		"With hardware, registered pages stay in place. Here the work request fails: 0x04 for local memory, 0x13 for the responder's memory, 0x0b for the responder's receive",
		"EFAULT: the program has unmapped the memory, or the memory is read-only. ESRCH: the program has ended, or its process has executed another program. EPERM: the device may no longer trace the program, or a seccomp profile forbids the call that the text names",
		"Deregister memory before it is unmapped. After EPERM run program and device as one user, and with ptrace_scope 1 of Yama let the program call prctl(PR_SET_PTRACER). If the text names a seccomp profile, change the profile so that the engine may make the call"},
	MemorySlow: {"", "memory-slow",
		"Memory that work of a queue touches has delayed the engine's thread for more than 1 ms. The thread took page faults on this memory, in which the kernel made the thread wait or worked for that long",
		"With hardware, all pages of registered memory are present. Here the thread that executes the work of all clients waits. Nothing fails. A client is told only about its own memory; if the work touches memory of two clients, both are told",
		"The pages were swapped out or never touched, or a memory cgroup is at its limit, or huge pages had to be cleared, or a program punches holes into the memory",
		"Touch memory before you register it, and lock it (mlock). A client that delays the thread again and again, or for long, does so on purpose: end that client"},
}

// String returns the name of the code.
func (c Code) String() string {
	if c < Count {
		return meanings[c].name
	}
	return fmt.Sprintf("code %d", uint8(c))
}
