package wqe

// Sets of transports.
const (
	onReliable = Transports(1<<RC | 1<<TransportXRC | 1<<DC)
	onConn     = onReliable | 1<<UC // connected transports
	anywhere   = onConn | 1<<UD
)

// Numbers of package cqe. They are repeated here because the format packages do not
// import each other; TestInfoMatchesCQE of package cqe compares them.
const (
	respWriteImm = 1 // cqe.Opcode
	respSend     = 2
	respSendImm  = 3
	respSendInv  = 4

	wcSend     = 0 // cqe.WCOpcode
	wcWrite    = 1
	wcRead     = 2
	wcCompSwap = 3
	wcFetchAdd = 4
	wcTSO      = 7
	wcFromPost = 255
)

// infos is the table of opcodes. If a row has a name and no segment, the vendor
// defines the opcode without a public layout, and the units of its WQEs are KindRaw.
//
// After a change run go generate ./internal/opcodes: it rewrites the table in
// docs/OPCODES.md, include/nicless/opcodes.h and cqe/sendop.go.
var infos = [256]Info{
	// Messages that take a receive of the peer.
	OpSend: {
		Name: "SEND", Address: true, DataMost: AnyData, Inline: true, Units: 1,
		Transports: anywhere, Response: respSend, WC: wcSend,
	},
	OpSendImm: {
		Name: "SEND_IMM", Address: true, DataMost: AnyData, Inline: true, Units: 1, Imm: ImmData,
		Transports: anywhere, Response: respSendImm, WC: wcSend,
	},
	OpSendInval: {
		Name: "SEND_INVAL", Address: true, DataMost: AnyData, Inline: true, Units: 1, Imm: ImmInvalRKey,
		Transports: onConn, Response: respSendInv, WC: wcSend,
	},

	// Reads and writes of the peer's memory.
	OpRDMAWrite: {
		Name: "RDMA_WRITE", Address: true, Raddr: true, DataMost: AnyData, Inline: true, Units: 2,
		Transports: onConn, Remote: RightRemoteWrite, WC: wcWrite,
	},
	OpRDMAWriteImm: {
		Name: "RDMA_WRITE_IMM", Address: true, Raddr: true, DataMost: AnyData, Inline: true, Units: 2,
		Imm: ImmData, Transports: onConn, Remote: RightRemoteWrite, Response: respWriteImm, WC: wcWrite,
	},
	OpRDMARead: {
		Name: "RDMA_READ", Address: true, Raddr: true, DataMost: AnyData, Units: 2,
		Transports: onReliable, Local: RightLocalWrite, Remote: RightRemoteRead, Reads: true, WC: wcRead,
	},

	// Atomics. The operands of masked atomics have a second form for 4 bytes. A masked
	// compare-and-swap of 8 bytes takes one unit more than Units says.
	OpAtomicCS: {
		Name: "ATOMIC_CS", Address: true, Raddr: true, Operand: KindAtomic,
		DataLeast: 1, DataMost: 1, Units: 4, Transports: onReliable,
		Local: RightLocalWrite, Remote: RightRemoteAtomic, Reads: true, WC: wcCompSwap,
	},
	OpAtomicFA: {
		Name: "ATOMIC_FA", Address: true, Raddr: true, Operand: KindAtomic,
		DataLeast: 1, DataMost: 1, Units: 4, Transports: onReliable,
		Local: RightLocalWrite, Remote: RightRemoteAtomic, Reads: true, WC: wcFetchAdd,
	},
	OpAtomicMaskedCS: {
		Name: "ATOMIC_MASKED_CS", Address: true, Raddr: true, Operand: KindMaskedCS8,
		DataLeast: 1, DataMost: 1, Units: 4, Transports: onReliable,
		Local: RightLocalWrite, Remote: RightRemoteAtomic, Reads: true, WC: wcFromPost,
	},
	OpAtomicMaskedFA: {
		Name: "ATOMIC_MASKED_FA", Address: true, Raddr: true, Operand: KindMaskedFA8,
		DataLeast: 1, DataMost: 1, Units: 4, Transports: onReliable,
		Local: RightLocalWrite, Remote: RightRemoteAtomic, Reads: true, WC: wcFromPost,
	},

	// Operations without a peer.
	OpNop: {Name: "NOP", Operand: KindUnused, Units: 1, Transports: anywhere, WC: wcFromPost},
	OpUMR: {
		Name: "UMR", Operand: KindUMRCtrl, Units: 8, Imm: ImmMkey, Transports: anywhere, Keys: true,
		WC: wcFromPost,
	},
	OpDump: {Name: "DUMP", DataMost: AnyData, Units: 1, Transports: anywhere, WC: wcFromPost},
	OpMMO: {
		Name: "MMO", Operand: KindMMOMeta, DataLeast: 2, DataMost: 2, Units: 4, Transports: anywhere,
		Local: RightLocalWrite, WC: wcFromPost,
	},
	OpWait:   {Name: "WAIT", Operand: KindWait, Units: 2, Transports: anywhere, WC: wcFromPost},
	OpSendEn: {Name: "SEND_EN", Operand: KindWait, Units: 2, Transports: anywhere, WC: wcFromPost},

	// Not executed by the device.
	OpTSO: {
		Name: "TSO", Address: true, Eth: true, DataMost: AnyData, Inline: true, Units: 2, WC: wcTSO,
	},
	OpEnhancedMPSW: {
		Name: "ENHANCED_MPSW", Eth: true, DataMost: AnyData, Inline: true, Units: 2, WC: wcFromPost,
	},
	OpBindMW: {
		Name: "BIND_MW", Operand: KindUMRCtrl, Units: 8, Imm: ImmMkey, Keys: true, WC: wcFromPost,
	},
	OpLocalInval: {
		Name: "LOCAL_INVAL", Operand: KindUMRCtrl, Units: 8, Imm: ImmMkey, Keys: true, WC: wcFromPost,
	},
	OpTagMatching:   {Name: "TAG_MATCHING", Operand: KindTagMatching, Units: 3, WC: wcFromPost},
	OpSetPSV:        {Name: "SET_PSV", Operand: KindSetPSV, Units: 2, WC: wcFromPost},
	OpFMR:           {Name: "FMR", Units: 1, WC: wcFromPost},
	OpConfigCmd:     {Name: "CONFIG_CMD", Units: 1, WC: wcFromPost},
	OpGetPSV:        {Name: "GET_PSV", Units: 1, WC: wcFromPost},
	OpCheckPSV:      {Name: "CHECK_PSV", Units: 1, WC: wcFromPost},
	OpRGetPSV:       {Name: "RGET_PSV", Units: 1, WC: wcFromPost},
	OpRCheckPSV:     {Name: "RCHECK_PSV", Units: 1, WC: wcFromPost},
	OpFlowTblAccess: {Name: "FLOW_TBL_ACCESS", Units: 1, WC: wcFromPost},
	OpAccessASO:     {Name: "ACCESS_ASO", Units: 1, WC: wcFromPost},
}
