package known

// Probable causes of each syndrome, the most probable first. The codes are those of
// docs/EXPLANATIONS.md. The last column is when the cause is possible; Causes drops the others.
var (
	localLength = []Cause{
		{"the receive's list is shorter than the message; on UD, 40 bytes for the GRH are missing", "receive-short", Documented, receives},
		{"the message is longer than the port or the queue pair allows; on UD, longer than the MTU", "message-size", Documented, requests},
		{"an Ethernet send has fewer inline header bytes than the device needs (vendor byte 0x68)", "", Observed, when{requester, opSend, 0x68}},
		{"the list of an atomic is not as long as its operand", "atomic-result", Inferred, when{requester, opAtomic, 0}},
	}
	localQPOp = []Cause{
		{"ds of the control segment does not fit the segments: too small, 0 or too large", "ds-small", Documented, requests},
		{"the opcode is unknown, or the transport of the queue pair does not have it", "opcode", Documented, requests},
		{"the WQE was not written, or was overwritten, when the device read it: record or register came before the bytes", "ds-zero", Inferred, requests},
		{"the wqe_index or the QPN of the control segment is not that of this block", "index-mismatch", Inferred, requests},
		{"a UMR has a list whose length or alignment the device refuses", "umr-list", Observed, when{requester, opKey, 0x68}},
		{"the entry of the receive queue is malformed", "receive-unwritten", Observed, when{responder, opReceive, 0xd6}},
		{"a READ or an atomic has inline data", "inline-read", Documented, when{requester, opRead | opAtomic, 0}},
		{"the signature of the WQE is wrong", "signature", Documented, always},
		{"a WAIT or SEND_EN names a queue that does not exist", "wait-cq", Documented, when{requester, opOther, 0}},
	}
	localProtection = []Cause{
		{"the lkey names no memory: it was deregistered, is of another process, or is an rkey", "key-unknown", Documented, always},
		{"the address and length of a segment are not inside the range of the lkey", "key-range", Documented, always},
		{"the key is of another protection domain than the queue pair", "key-domain", Observed, always},
		{"a receive, READ or atomic writes into memory that was registered without local_write", "key-access", Documented, when{anySide, opRead | opAtomic | opReceive, 0}},
		{"the lkey is in host byte order", "key-byte-order", Inferred, always},
		{"the memory was registered again, and the WQE has the old key", "key-stale", Documented, always},
		{"the list of a receive was not ended, or the entry was never written", "receive-no-end", Inferred, receives},
		{"the IOMMU refuses the device's access to the memory: look for IO_PAGE_FAULT or DMAR in the kernel's log",
			"", Observed, when{anySide, opAny, 0x56}},
		{"the device cannot reach the memory of a GPU through PCIe", "", Observed, when{anySide, opAny, 0x51}},
	}
	flush = []Cause{
		{"an earlier work request of this queue pair has failed", "", Documented, always},
		{"the program or the connection manager has moved the queue pair to the error state: a disconnect, an exit, a time-out", "", Documented, always},
		{"the peer has failed and disconnected", "", Observed, always},
		{"the stream of a DCI has an error", "dc-stream", Documented, requests},
	}
	bindError = []Cause{
		{"the UMR or bind cannot change this Mkey: in use, wrong variant, no mw_bind, or a range outside", "bind", Documented, when{requester, opKey, 0}},
		{"the Mkey has too few entries for the list of the UMR (vendor byte 0x78)", "umr-list", Observed, when{requester, opKey, 0x78}},
		{"pages of the memory cannot be reached by the device", "memory-fault", Inferred, when{requester, opKey, 0x25}},
	}
	badResponse = []Cause{
		{"the path MTUs of the two sides differ", "link-response", Inferred, always},
		{"the responder does not keep to the protocol, or a packet was made by another device", "link-response", Inferred, always},
	}
	localAccess = []Cause{
		{"the responder's own memory cannot be accessed with its key", "key-access", Inferred, always},
	}
	remoteInvalid = []Cause{
		{"the receive at the responder is shorter than the message", "receive-short", Documented, when{requester, opSend, 0}},
		{"the responder's queue pair does not allow the operation: access flags, or max_dest_rd_atomic 0", "responder-refuses", Documented, when{requester, opWrite | opRead | opAtomic, 0}},
		{"an atomic's address is not aligned to its operand", "atomic-alignment", Documented, when{requester, opAtomic, 0}},
		{"this side has more READs and atomics outstanding than the responder's max_dest_rd_atomic", "link-place", Documented, when{requester, opRead | opAtomic, 0}},
		{"the path MTUs of the two sides differ", "link-length", Inferred, always},
		{"a SEND_INVAL names a key that may not be invalidated", "send-inval", Inferred, when{requester, opSend, 0}},
		{"the XRC segment names no SRQ of the responder's domain", "xrc-srq", Inferred, when{requester, opSend | opWrite, 0}},
	}
	remoteAccess = []Cause{
		{"the rkey names no memory at the responder: deregistered, of another process, or an lkey of this side", "key-unknown", Documented, always},
		{"raddr and length are not inside the range of the rkey", "key-range", Documented, always},
		{"the memory was registered without the remote right that the operation needs", "key-access", Documented, always},
		{"the memory was registered again, and this side still has the old rkey", "key-stale", Documented, always},
		{"key and queue pair of the responder have different protection domains", "key-domain", Documented, always},
		{"the rkey is in host byte order, or was cut or extended on its way to this side", "key-byte-order", Inferred, always},
		{"the memory window is not bound any more", "key-unbound", Documented, always},
		{"the responder's process ended while this side still wrote", "peer-gone", Observed, always},
	}
	remoteOperation = []Cause{
		{"the receive at the responder has a bad key or range", "key-unknown", Documented, when{requester, opSend, 0}},
		{"the list of the receive was never written, or not ended", "receive-unwritten", Inferred, when{requester, opSend, 0}},
		{"memory of the responder cannot be accessed", "process-memory", Inferred, always},
	}
	transportRetry = []Cause{
		{"the peer has ended, or has destroyed its queue pair", "peer-gone", Documented, always},
		{"the peer's queue pair is not in RTR or RTS yet, or is in the error state", "peer-state", Documented, always},
		{"the network loses packets: congestion without PFC or ECN, a bad cable, a firewall for UDP port 4791", "peer-silent", Observed, always},
		{"the route is wrong: GID index, RoCE version, VLAN, LID or subnet manager", "link-none", Observed, always},
		{"dest_qpn or the PSNs of the two sides do not belong together", "peer-missing", Documented, always},
		{"only one side is connected to the other", "peer-not-back", Documented, always},
		{"a link went down for longer than all retries take (timeout 14 and retry_cnt 7: about 0.5 to 2 s)", "link-down", Observed, always},
		{"a DC address or access key is wrong", "dc-key", Documented, always},
	}
	rnrRetry = []Cause{
		{"receives are posted too late or too few", "receive-none", Documented, always},
		{"rnr_retry is small, and the receiver was slow for a moment (7 waits for ever)", "receive-none", Documented, always},
		{"the receive counter is stored in the wrong word of the doorbell record, or in host byte order", "record-byte-order", Inferred, always},
	}
	remoteAborted = []Cause{
		{"a page fault of on-demand paging at the responder (vendor byte 0x93)", "memory-fault", Documented, when{anySide, opAny, 0x93}},
		{"the peer has aborted the operation", "", Documented, always},
	}
)
