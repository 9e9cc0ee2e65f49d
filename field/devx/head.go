package devx

// Fields that all commands have.
var (
	in     = &Group{Name: "command"}
	inMod  = &Group{Name: "variant of a command"}
	Opcode = in.bits("opcode", 0x00, 31, 16, "number of the command", opcodeNames)
	UID    = in.bits("uid", 0x00, 15, 0, "the kernel's number of the context; programs leave it 0")
	OpMod  = inMod.bits("op_mod", 0x04, 15, 0, "variant of the command")
)

// Fields that all answers have.
var (
	out          = &Group{Name: "answer"}
	AnswerStatus = out.bits("status", 0x00, 31, 24, "whether the command was executed", statusTexts)
	Syndrome     = out.bits("syndrome", 0x04, 31, 0, "why the command was not executed, for its maker")
)

// Numbers of objects, in commands and in answers.
var (
	outQPN  = &Group{Name: "answer of CREATE_QP"}
	NewQPN  = outQPN.bits("qpn", 0x08, 23, 0, "number of the queue pair")
	outCQN  = &Group{Name: "answer of CREATE_CQ"}
	NewCQN  = outCQN.bits("cqn", 0x08, 23, 0, "number of the completion queue")
	outRMPN = &Group{Name: "answer of CREATE_RMP"}
	NewRMPN = outRMPN.bits("rmpn", 0x08, 23, 0, "number of the RMP")
	outDCTN = &Group{Name: "answer of CREATE_DCT"}
	NewDCTN = outDCTN.bits("dctn", 0x08, 23, 0, "number of the DCT")
	outMkey = &Group{Name: "answer of CREATE_MKEY"}
	NewMkey = outMkey.bits("mkey_index", 0x08, 23, 0, "index of the key: its upper 24 bits")

	inDCTN = &Group{Name: "command about a DCT"}
	DCTN   = inDCTN.bits("dctn", 0x08, 23, 0, "number of the DCT")

	inQPN = &Group{Name: "command about a queue pair"}
	QPN   = inQPN.bits("qpn", 0x08, 23, 0, "number of the queue pair")

	inExtension = &Group{Name: "extension of the context"}
	QPExtension = inExtension.bits("qpc_ext", 0x08, 31, 31, "the context has an extension behind it")

	inNewQPN = &Group{Name: "number of a new queue pair"}
	InputQPN = inNewQPN.bits("input_qpn", 0x08, 23, 0, "number that the queue pair shall have; 0: any")

	inMask       = &Group{Name: "optional fields of a queue pair"}
	OptParamMask = inMask.bits("opt_param_mask", 0x10, 31, 0, "which of the optional fields of the context count")
	ECE          = inMask.bits("ece", 0x14, 31, 0, "enhanced connection establishment; not offered")

	outMask = &Group{Name: "optional fields of an answer"}
	_       = outMask.bits("opt_param_mask", 0x10, 31, 0, "which of the optional fields of the context count")
	outECE  = &Group{Name: "ECE of an answer"}
	NewECE  = outECE.bits("ece", 0x0c, 31, 0, "enhanced connection establishment")
)

// Memory that holds a queue: a registered umem and an offset in it.
var (
	qpMemory      = &Group{Name: "memory of a queue pair", At: 0x100}
	QPUmemOffset  = qpMemory.word("wq_umem_offset", 0x00, "where in the umem the queues begin, in bytes")
	QPUmem        = qpMemory.bits("wq_umem_id", 0x08, 31, 0, "number of the umem that has the queues")
	QPUmemIsValid = qpMemory.bits("wq_umem_valid", 0x0c, 31, 31, "the number of the umem counts; the kernel sets it")

	cqMemory      = &Group{Name: "memory of a completion queue", At: 0x50}
	CQUmemOffset  = cqMemory.word("cq_umem_offset", 0x00, "where in the umem the entries begin, in bytes")
	CQUmem        = cqMemory.bits("cq_umem_id", 0x08, 31, 0, "number of the umem that has the entries")
	CQUmemIsValid = cqMemory.bits("cq_umem_valid", 0x0c, 31, 31, "the number of the umem counts; the kernel sets it")
)

// More bits of the mask of optional fields.
var (
	qpMore           = &Group{Name: "further mask", At: 0x108}
	OptParamMaskMore = qpMore.word("opt_param_mask_95_32", 0x00, "bits 32 to 95 of opt_param_mask")

	// Behind the context, with qpc_ext.
	qpcExtension    = &Group{Name: "qpc_ext", At: 0x110, Context: true}
	QPDelayDrop     = qpcExtension.bits("delay_drop_en", 0x00, 31, 31, "a packet without a receive waits before it is dropped")
	QPVL15          = qpcExtension.bits("vl15", 0x00, 30, 30, "packets are management packets (VL 15)")
	QPMMO           = qpcExtension.bits("mmo", 0x00, 29, 29, "the queue may have MMO work requests")
	QPErroredStream = qpcExtension.bits("dci_stream_channel_id", 0x00, 15, 0, "the stream of a DCI that is taken out of error")
	QPQosRequester  = qpcExtension.bits("qos_queue_group_id_requester", 0x04, 31, 0, "queue group of requests")
	QPQosResponder  = qpcExtension.bits("qos_queue_group_id_responder", 0x08, 31, 0, "queue group of responses")
)

// Bits of opt_param_mask (MLX5_QP_OPTPAR_*).
const (
	OptAltAddrPath = 1 << 0
	OptRRE         = 1 << 1
	OptRAE         = 1 << 2
	OptRWE         = 1 << 3
	OptPKeyIndex   = 1 << 4
	OptQKey        = 1 << 5
	OptRNRTimeout  = 1 << 6
	OptAddrPath    = 1 << 7
	OptSRAMax      = 1 << 8
	OptRRAMax      = 1 << 9
	OptPMState     = 1 << 10
	OptRetryCount  = 1 << 12
	OptRNRRetry    = 1 << 13
	OptAckTimeout  = 1 << 14
	OptLagTxAff    = 1 << 15
	OptPriPort     = 1 << 16
	OptSRQN        = 1 << 18
	OptCQNReceive  = 1 << 19
	OptDCHS        = 1 << 20
	OptDCKey       = 1 << 21
	OptCounterSet  = 1 << 25
)

// Bits of OptParamMaskMore.
const (
	OptMoreStream  = 1 << 0 // QPErroredStream
	OptMoreUDPPort = 1 << 2 // QPUDPPort
)
