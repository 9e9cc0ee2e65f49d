package known

// Probable causes of each syndrome, the most probable first. The codes are those of
// docs/EXPLANATIONS.md.
var (
	localLength = []Cause{
		{"the receive's list is shorter than the message; on UD, 40 bytes for the GRH are missing", "receive-short", Documented},
		{"the message is longer than the port or the queue pair allows; on UD, longer than the MTU", "message-size", Documented},
		{"an Ethernet send has fewer inline header bytes than the device needs (vendor byte 0x68)", "", Observed},
		{"the list of an atomic is not as long as its operand", "atomic-result", Inferred},
	}
	localQPOp = []Cause{
		{"ds of the control segment does not fit the segments: too small, 0 or too large", "ds-small", Documented},
		{"the opcode is unknown, or the transport of the queue pair does not have it", "opcode", Documented},
		{"the WQE was not written, or was overwritten, when the device read it: record or register came before the bytes", "ds-zero", Inferred},
		{"the wqe_index or the QPN of the control segment is not that of this block", "index-mismatch", Inferred},
		{"a UMR has a list whose length or alignment the device refuses", "umr-list", Observed},
		{"a READ or an atomic has inline data", "inline-read", Documented},
		{"the signature of the WQE is wrong", "signature", Documented},
		{"a WAIT or SEND_EN names a queue that does not exist", "wait-cq", Documented},
	}
	localProtection = []Cause{
		{"the lkey names no memory: it was deregistered, is of another process, or is an rkey", "key-unknown", Documented},
		{"the address and length of a segment are not inside the range of the lkey", "key-range", Documented},
		{"the key is of another protection domain than the queue pair", "key-domain", Observed},
		{"a receive, READ or atomic writes into memory that was registered without local_write", "key-access", Documented},
		{"the lkey is in host byte order", "key-byte-order", Inferred},
		{"the memory was registered again, and the WQE has the old key", "key-stale", Documented},
		{"the list of a receive was not ended, or the entry was never written", "receive-no-end", Inferred},
		{"the IOMMU, or the PCIe path to a GPU, refuses the device's access to the memory", "", Observed},
	}
	flush = []Cause{
		{"an earlier work request of this queue pair has failed", "", Documented},
		{"the program or the connection manager has moved the queue pair to the error state: a disconnect, an exit, a time-out", "", Documented},
		{"the peer has failed and disconnected", "", Observed},
		{"the stream of a DCI has an error", "dc-stream", Documented},
	}
	bindError = []Cause{
		{"the UMR or bind cannot change this Mkey: in use, wrong variant, no mw_bind, or a range outside", "bind", Documented},
		{"the Mkey has too few entries for the list of the UMR (vendor byte 0x78)", "umr-list", Observed},
		{"pages of the memory cannot be reached by the device", "memory-fault", Inferred},
	}
	badResponse = []Cause{
		{"the path MTUs of the two sides differ", "link-response", Inferred},
		{"the responder does not keep to the protocol, or a packet was made by another device", "link-response", Inferred},
	}
	localAccess = []Cause{
		{"the responder's own memory cannot be accessed with its key", "key-access", Inferred},
	}
	remoteInvalid = []Cause{
		{"the receive at the responder is shorter than the message", "receive-short", Documented},
		{"the responder's queue pair does not allow the operation: access flags, or max_dest_rd_atomic 0", "responder-refuses", Documented},
		{"an atomic's address is not aligned to its operand", "atomic-alignment", Documented},
		{"this side has more READs and atomics outstanding than the responder's max_dest_rd_atomic", "link-place", Documented},
		{"the path MTUs of the two sides differ", "link-length", Inferred},
		{"a SEND_INVAL names a key that may not be invalidated", "send-inval", Inferred},
		{"the XRC segment names no SRQ of the responder's domain", "xrc-srq", Inferred},
	}
	remoteAccess = []Cause{
		{"the rkey names no memory at the responder: deregistered, of another process, or an lkey of this side", "key-unknown", Documented},
		{"raddr and length are not inside the range of the rkey", "key-range", Documented},
		{"the memory was registered without the remote right that the operation needs", "key-access", Documented},
		{"the memory was registered again, and this side still has the old rkey", "key-stale", Documented},
		{"key and queue pair of the responder have different protection domains", "key-domain", Documented},
		{"the rkey is in host byte order, or was cut or extended on its way to this side", "key-byte-order", Inferred},
		{"the memory window is not bound any more", "key-unbound", Documented},
		{"the responder's process ended while this side still wrote", "peer-gone", Observed},
	}
	remoteOperation = []Cause{
		{"the receive at the responder has a bad key or range", "key-unknown", Documented},
		{"the list of the receive was never written, or not ended", "receive-unwritten", Inferred},
		{"memory of the responder cannot be accessed", "process-memory", Inferred},
	}
	transportRetry = []Cause{
		{"the peer has ended, or has destroyed its queue pair", "peer-gone", Documented},
		{"the peer's queue pair is not in RTR or RTS yet, or is in the error state", "peer-state", Documented},
		{"the network loses packets: congestion without PFC or ECN, a bad cable, a firewall for UDP port 4791", "peer-silent", Observed},
		{"the route is wrong: GID index, RoCE version, VLAN, LID or subnet manager", "link-none", Observed},
		{"dest_qpn or the PSNs of the two sides do not belong together", "peer-missing", Documented},
		{"only one side is connected to the other", "peer-not-back", Documented},
		{"a link went down for longer than all retries take (timeout 14 and retry_cnt 7: about 0.5 to 2 s)", "link-down", Observed},
		{"a DC address or access key is wrong", "dc-key", Documented},
	}
	rnrRetry = []Cause{
		{"receives are posted too late or too few", "receive-none", Documented},
		{"rnr_retry is small, and the receiver was slow for a moment (7 waits for ever)", "receive-none", Documented},
		{"the receive counter is stored in the wrong word of the doorbell record, or in host byte order", "record-byte-order", Inferred},
	}
	remoteAborted = []Cause{
		{"a page fault of on-demand paging at the responder (vendor byte 0x93)", "memory-fault", Documented},
		{"the peer has aborted the operation", "", Documented},
	}
)
