package devx

// The context of a queue pair, in CREATE_QP, in the transitions, and in the answer of QUERY_QP.
var (
	qpc = &Group{Name: "qpc", At: 0x18, Context: true}

	QPState       = qpc.bits("state", 0x00, 31, 28, "state of the queue pair", qpStates)
	QPLagPort     = qpc.bits("lag_tx_port_affinity", 0x00, 27, 24, "port of a LAG that is preferred; 0: any")
	QPType        = qpc.bits("st", 0x00, 23, 16, "transport", qpTypes)
	QPIsolate     = qpc.bits("isolate_vl_tc", 0x00, 13, 13, "packets have a virtual lane or traffic class for themselves")
	QPPathState   = qpc.bits("pm_state", 0x00, 12, 11, "state of path migration", qpPathStateNames)
	QPWriteOff    = qpc.bits("rdma_wr_disabled", 0x00, 10, 10, "RDMA WRITEs are not accepted")
	QPCredits     = qpc.bits("req_e2e_credit_mode", 0x00, 9, 8, "end-to-end flow credits")
	QPOffloadType = qpc.bits("offload_type", 0x00, 7, 4, "offload of tag matching")
	QPPadding     = qpc.bits("end_padding_mode", 0x00, 3, 2, "padding of receives", paddingNames)
	QPSignature   = qpc.bits("wq_signature", 0x04, 31, 31, "WQEs have signatures, which the device checks")
	QPNoLoopback  = qpc.bits("block_lb_mc", 0x04, 30, 30, "multicasts do not come back")
	QPAtomicLike  = qpc.bits("atomic_like_write_en", 0x04, 29, 29, "WRITEs of up to 8 bytes are atomic")
	QPLatency     = qpc.bits("latency_sensitive", 0x04, 28, 28, "latency is more important than throughput")
	QPDrainSig    = qpc.bits("drain_sigerr", 0x04, 26, 26, "a signature error stops the send queue")
	QPOrdering0   = qpc.bits("dp_ordering_0", 0x04, 25, 25, "data may be written out of order (adaptive routing), lower bit")
	QPOrderForce  = qpc.bits("dp_ordering_force", 0x04, 24, 24, "dp_ordering counts instead of the device's own setting")
	QPPD          = qpc.bits("pd", 0x04, 23, 0, "number of the protection domain")
	QPMTU         = qpc.bits("mtu", 0x08, 31, 29, "path MTU", mtuNames)
	QPLogMessage  = qpc.bits("log_msg_max", 0x08, 28, 24, "logarithm of the longest message, in bytes")
	QPLogRQ       = qpc.bits("log_rq_size", 0x08, 22, 19, "logarithm of the entries of the receive queue")
	QPLogRQStride = qpc.bits("log_rq_stride", 0x08, 18, 16, "logarithm of the bytes of an entry of the receive queue, less 4")
	QPNoSQ        = qpc.bits("no_sq", 0x08, 15, 15, "the queue pair has no send queue")
	QPLogSQ       = qpc.bits("log_sq_size", 0x08, 14, 11, "logarithm of the 64-byte blocks of the send queue")
	QPTimestamp   = qpc.bits("ts_format", 0x08, 7, 6, "time stamps of completions", qpTimestampNames)
	QPInOrder     = qpc.bits("data_in_order", 0x08, 5, 5, "the bytes of a message are written in order")
	QPReservedKey = qpc.bits("rlky", 0x08, 4, 4, "the reserved key may be used")
	QPStateless   = qpc.bits("ulp_stateless_offload_mode", 0x08, 3, 0, "stateless offloads for IPoIB")
	QPCounterSet  = qpc.bits("counter_set_id", 0x0c, 31, 24, "counters of the queue pair")
	QPUAR         = qpc.bits("uar_page", 0x0c, 23, 0, "number of the UAR page with the doorbell registers")
	QPDoorbells   = qpc.bits("send_dbr_mode", 0x10, 31, 30, "how posted work is announced", qpDoorbellNames)
	QPHandshake   = qpc.bits("full_handshake", 0x10, 28, 28, "a DCI waits for the answer of a DCT before it sends")
	QPCNAKSL      = qpc.bits("cnak_reverse_sl", 0x10, 27, 24, "service level of CNAKs, the rejections of a DCT")
	QPUserIndex   = qpc.bits("user_index", 0x10, 23, 0, "number that CQEs carry for the queue pair")
	QPLogPage     = qpc.bits("log_page_size", 0x14, 28, 24, "logarithm of the bytes of a page, less 12; not used with a umem")
	QPRemote      = qpc.bits("remote_qpn", 0x14, 23, 0, "number of the peer's queue pair")

	QPForceLoop     = qpc.bits("primary_address_path.fl", 0x18, 31, 31, "packets come back to the own port")
	QPFreeAR        = qpc.bits("primary_address_path.free_ar", 0x18, 30, 30, "packets may take other ways (adaptive routing)")
	QPPKeyIndex     = qpc.bits("primary_address_path.pkey_index", 0x18, 15, 0, "index of the partition key")
	QPGRH           = qpc.bits("primary_address_path.grh", 0x1c, 23, 23, "packets have a global header")
	QPMLID          = qpc.bits("primary_address_path.mlid", 0x1c, 22, 16, "lower bits of the own LID")
	QPLID           = qpc.bits("primary_address_path.rlid", 0x1c, 15, 0, "the peer's LID (InfiniBand)")
	QPTimeout       = qpc.bits("primary_address_path.ack_timeout", 0x20, 31, 27, "4.096 us << ack_timeout until a retry; 0: never")
	QPGIDIndex      = qpc.bits("primary_address_path.src_addr_index", 0x20, 23, 16, "index of the own GID")
	QPLogRTM        = qpc.bits("primary_address_path.log_rtm", 0x20, 15, 12, "factor of the timeout when it is repeated, logarithm")
	QPStaticRate    = qpc.bits("primary_address_path.stat_rate", 0x20, 11, 8, "limit of the rate")
	QPHops          = qpc.bits("primary_address_path.hop_limit", 0x20, 7, 0, "hop limit")
	QPClass         = qpc.bits("primary_address_path.tclass", 0x24, 27, 20, "traffic class")
	QPFlowLabel     = qpc.bits("primary_address_path.flow_label", 0x24, 19, 0, "flow label")
	QPGID           = qpc.raw("primary_address_path.rgid_rip", 0x28, 16, "the peer's GID")
	QPForceDSCP     = qpc.bits("primary_address_path.f_dscp", 0x38, 27, 27, "dscp counts instead of the device's own setting")
	QPForceECN      = qpc.bits("primary_address_path.f_ecn", 0x38, 26, 26, "ecn counts instead of the device's own setting")
	QPForcePriority = qpc.bits("primary_address_path.f_eth_prio", 0x38, 24, 24, "eth_prio counts instead of the device's own setting")
	QPECN           = qpc.bits("primary_address_path.ecn", 0x38, 23, 22, "ECN of packets (RoCE v2)")
	QPDSCP          = qpc.bits("primary_address_path.dscp", 0x38, 21, 16, "DSCP of packets (RoCE v2)")
	QPUDPPort       = qpc.bits("primary_address_path.udp_sport", 0x38, 15, 0, "UDP source port of packets (RoCE v2)")
	QPDropEligible  = qpc.bits("primary_address_path.dei_cfi", 0x3c, 31, 31, "packets may be dropped first (DEI)")
	QPPriority      = qpc.bits("primary_address_path.eth_prio", 0x3c, 30, 28, "Ethernet priority")
	QPSL            = qpc.bits("primary_address_path.sl", 0x3c, 27, 24, "service level")
	QPPort          = qpc.bits("primary_address_path.vhca_port_num", 0x3c, 23, 16, "number of the port")
	QPMACHigh       = qpc.bits("primary_address_path.rmac_47_32", 0x3c, 15, 0, "the peer's MAC address, the first two bytes")
	QPMACLow        = qpc.bits("primary_address_path.rmac_31_0", 0x40, 31, 0, "the peer's MAC address, the last four bytes")

	QPLogAckReq    = qpc.bits("log_ack_req_freq", 0x70, 31, 28, "an answer is asked for at least every 2^n packets")
	QPLogSRA       = qpc.bits("log_sra_max", 0x70, 23, 21, "logarithm of READs and atomics that may be out")
	QPRetryCount   = qpc.bits("retry_count", 0x70, 18, 16, "how often a message is tried again")
	QPRNRRetry     = qpc.bits("rnr_retry", 0x70, 15, 13, "how often a message is tried again when the peer is not ready; 7: for ever")
	QPFastRegister = qpc.bits("fre", 0x70, 11, 11, "fast registration is allowed")
	QPNowRNR       = qpc.bits("cur_rnr_retry", 0x70, 10, 8, "what is left of rnr_retry")
	QPNowRetry     = qpc.bits("cur_retry_count", 0x70, 7, 5, "what is left of retry_count")
	QPSendPSN      = qpc.bits("next_send_psn", 0x78, 23, 0, "sequence number of the next packet that is sent")
	QPLogStreams   = qpc.bits("log_num_dci_stream_channels", 0x7c, 28, 24, "logarithm of the streams of a DCI")
	QPSendCQ       = qpc.bits("cqn_snd", 0x7c, 23, 0, "number of the completion queue for sends")
	QPLogErrored   = qpc.bits("log_num_dci_errored_streams", 0x80, 28, 24, "logarithm of the streams of a DCI that may fail")
	QPSourceQPN    = qpc.bits("deth_sqpn", 0x80, 23, 0, "number of the queue pair in packets of UD")
	QPLastAckedPSN = qpc.bits("last_acked_psn", 0x88, 23, 0, "sequence number of the last packet that was answered")
	QPSSN          = qpc.bits("ssn", 0x8c, 23, 0, "sequence number of the last message that was sent")
	QPLogRRA       = qpc.bits("log_rra_max", 0x90, 23, 21, "logarithm of the peer's READs and atomics that may be out")
	QPAtomicMode   = qpc.bits("atomic_mode", 0x90, 19, 16, "sizes of atomics", qpAtomicModeNames)
	QPReads        = qpc.bits("rre", 0x90, 15, 15, "the peer may READ")
	QPWrites       = qpc.bits("rwe", 0x90, 14, 14, "the peer may WRITE")
	QPAtomics      = qpc.bits("rae", 0x90, 13, 13, "the peer may do atomics")
	QPPageOffset   = qpc.bits("page_offset", 0x90, 11, 6, "where in the first page the queue begins, in 64 bytes; not used with a umem")
	QPOrdering1    = qpc.bits("dp_ordering_1", 0x90, 3, 3, "data may be written out of order, upper bit")
	QPSlaveReceive = qpc.bits("cd_slave_receive", 0x90, 2, 2, "receives wait for RECV_EN of another queue")
	QPSlaveSend    = qpc.bits("cd_slave_send", 0x90, 1, 1, "sends wait for SEND_EN of another queue")
	QPMaster       = qpc.bits("cd_master", 0x90, 0, 0, "the queue may have WAIT, SEND_EN and RECV_EN")
	QPMinRNR       = qpc.bits("min_rnr_nak", 0x94, 28, 24, "code of the time that a peer waits when no receive is ready")
	QPReceivePSN   = qpc.bits("next_rcv_psn", 0x94, 23, 0, "sequence number of the next packet that is expected")
	QPXRCD         = qpc.bits("xrcd", 0x98, 23, 0, "number of the XRC domain")
	QPReceiveCQ    = qpc.bits("cqn_rcv", 0x9c, 23, 0, "number of the completion queue for receives")
	QPRecord       = qpc.word("dbr_addr", 0xa0, "where in the umem the doorbell record is, in bytes")
	QPKey          = qpc.bits("q_key", 0xa8, 31, 0, "queue key (UD)")
	QPRQType       = qpc.bits("rq_type", 0xac, 26, 24, "where receives are", qpRQTypeNames)
	QPSRQ          = qpc.bits("srqn_rmpn_xrqn", 0xac, 23, 0, "number of the SRQ or RMP")
	QPRMSN         = qpc.bits("rmsn", 0xb0, 23, 0, "sequence number of the last message that came")
	QPDoneBlocks   = qpc.bits("hw_sq_wqebb_counter", 0xb4, 31, 16, "blocks of the send queue that the device has executed, modulo 2^16")
	QPPostedBlocks = qpc.bits("sw_sq_wqebb_counter", 0xb4, 15, 0, "blocks of the send queue that were announced, modulo 2^16")
	QPDoneReceives = qpc.bits("hw_rq_counter", 0xb8, 31, 0, "receives that the device has used")
	QPPostedRecvs  = qpc.bits("sw_rq_counter", 0xbc, 31, 0, "receives that were announced")
	QPGlobalSeq    = qpc.bits("cgs", 0xc4, 16, 16, "not explained by public documents")
	QPInRequests   = qpc.bits("cs_req", 0xc4, 15, 8, "results go into CQEs", scatterSizes)
	QPInReceives   = qpc.bits("cs_res", 0xc4, 7, 0, "short messages go into CQEs", scatterSizes)
	QPDCKey        = qpc.word("dc_access_key", 0xc8, "key that a DCT asks of DCIs")
	QPRecordValid  = qpc.bits("dbr_umem_valid", 0xd0, 28, 28, "the number of the record's umem counts; the kernel sets it")
	QPRecordUmem   = qpc.bits("dbr_umem_id", 0xe4, 31, 0, "number of the umem that has the doorbell record")
)

// States of a queue pair in its context.
const (
	StateRST  = 0
	StateINIT = 1
	StateRTR  = 2
	StateRTS  = 3
	StateSQE  = 4
	StateSQD  = 5
	StateERR  = 6
)

var qpStates = map[uint64]string{StateRST: "RST", StateINIT: "INIT", StateRTR: "RTR", StateRTS: "RTS",
	StateSQE: "SQE", StateSQD: "SQD", StateERR: "ERR", 7: "SQ draining", 9: "suspended"}

var qpTypes = map[uint64]string{0: "RC", 1: "UC", 2: "UD", 3: "XRC", 5: "DCI", 6: "DCT",
	7: "QP0", 8: "QP1", 9: "raw", 0xc: "registered UMR"}

// Values of QPRQType.
const (
	RQOwn    = 0
	RQShared = 1
	RQZero   = 2
	RQNone   = 3
)

// Values of QPInRequests and QPInReceives.
var scatterSizes = map[uint64]string{0: "never", 1: "up to 32 bytes", 2: "up to 64 bytes",
	0x11: "up to 32 bytes", 0x22: "up to 64 bytes"}
