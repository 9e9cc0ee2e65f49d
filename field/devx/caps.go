package devx

// Groups of capabilities, in answers to QUERY_HCA_CAP: values of CapGroup (enum mlx5_cap_type).
const (
	CapsGeneral      = 0x00
	CapsODP          = 0x02
	CapsAtomic       = 0x03
	CapsRoCE         = 0x04
	CapsDeviceMemory = 0x0f
	CapsGeneral2     = 0x20
)

// CapsSize is how many bytes a group of capabilities has.
const CapsSize = 0x1000

// leastCaps is how many bytes of a group an answer has at least: a group had no more in earlier headers of
// the kernel, and clients that follow those (rdma-core's own tests) leave room for no more.
const leastCaps = CapsSize / 2

// Capabilities returns the fields of a group of capabilities, at their places in an answer to
// QUERY_HCA_CAP. It returns nil if this package knows none.
func Capabilities(group uint16) *Group { return capsOf[group] }

var capsOf = map[uint16]*Group{
	CapsGeneral: capsGeneral, CapsODP: capsODP, CapsAtomic: capsAtomic, CapsRoCE: capsRoCE,
	CapsDeviceMemory: capsDeviceMemory, CapsGeneral2: capsGeneral2,
}

// Objects and operations, and limits of them.
var (
	capsGeneral                = &Group{Name: "cmd_hca_cap", At: HeadSize, Context: true}
	CapHCACap2                 = capsGeneral.bits("hca_cap_2", 0x04, 31, 31, "group 0x20 can be asked for")
	CapVHCAID                  = capsGeneral.bits("vhca_id", 0x04, 15, 0, "number of the function")
	CapLogDMAMMOMaxSize        = capsGeneral.bits("log_dma_mmo_max_size", 0x0c, 20, 16, "logarithm of the bytes of a copy by DMA (MMO)")
	CapLogMaxSRQSize           = capsGeneral.bits("log_max_srq_sz", 0x10, 31, 24, "logarithm of the entries of an SRQ or RMP")
	CapLogMaxQPSize            = capsGeneral.bits("log_max_qp_sz", 0x10, 23, 16, "logarithm of the 64-byte blocks of a send queue")
	CapLogMaxQP                = capsGeneral.bits("log_max_qp", 0x10, 4, 0, "logarithm of how many queue pairs")
	CapECE                     = capsGeneral.bits("ece", 0x14, 28, 28, "enhanced connection establishment")
	CapLogMaxSRQ               = capsGeneral.bits("log_max_srq", 0x14, 20, 16, "logarithm of how many SRQs")
	CapLogMaxCQSize            = capsGeneral.bits("log_max_cq_sz", 0x18, 23, 16, "logarithm of the entries of a completion queue")
	CapLogMaxCQ                = capsGeneral.bits("log_max_cq", 0x18, 4, 0, "logarithm of how many completion queues")
	CapLogMaxMkey              = capsGeneral.bits("log_max_mkey", 0x1c, 21, 16, "logarithm of how many memory keys")
	CapDumpFillMkey            = capsGeneral.bits("dump_fill_mkey", 0x1c, 7, 7, "there is a key for reads of nothing (DUMP)")
	CapMaxIndirection          = capsGeneral.bits("max_indirection", 0x20, 31, 24, "how deep lists of keys may be nested")
	CapFixedBufferSize         = capsGeneral.bits("fixed_buffer_size", 0x20, 23, 23, "keys may be lists of equal parts (KSM)")
	CapLogMaxMRWSize           = capsGeneral.bits("log_max_mrw_sz", 0x20, 22, 16, "logarithm of the bytes of a memory key")
	CapLogMaxKLMListSize       = capsGeneral.bits("log_max_klm_list_size", 0x20, 5, 0, "logarithm of the entries of a list that one work request (UMR) has")
	CapQPCExtension            = capsGeneral.bits("qpc_extension", 0x24, 29, 29, "a command may have qpc_ext behind the context")
	CapLogMaxRaReqDC           = capsGeneral.bits("log_max_ra_req_dc", 0x24, 21, 16, "logarithm of READs and atomics of a DCI that may be out")
	CapLogMaxRaResDC           = capsGeneral.bits("log_max_ra_res_dc", 0x24, 5, 0, "logarithm of READs and atomics that a DCT answers at a time")
	CapLogMaxRaReqQP           = capsGeneral.bits("log_max_ra_req_qp", 0x28, 21, 16, "logarithm of READs and atomics of a queue pair that may be out")
	CapRTS2RTSQPUDPSport       = capsGeneral.bits("rts2rts_qp_udp_sport", 0x28, 14, 14, "RTS2RTS_QP can change the UDP source port")
	CapDMAMMOSQ                = capsGeneral.bits("dma_mmo_sq", 0x28, 12, 12, "send queues may have copies by DMA (MMO)")
	CapLogMaxRaResQP           = capsGeneral.bits("log_max_ra_res_qp", 0x28, 5, 0, "logarithm of READs and atomics that a queue pair answers at a time")
	CapGIDTableSize            = capsGeneral.bits("gid_table_size", 0x2c, 15, 0, "code of the GIDs of a port: 8 shifted by it (InfiniBand); RoCE has roce_address_table_size")
	CapPKeyTableSize           = capsGeneral.bits("pkey_table_size", 0x30, 15, 0, "code of the partition keys of a port: 128 shifted by it")
	CapDeviceMemory            = capsGeneral.bits("device_memory", 0x34, 23, 23, "there is device memory; group 0xf has its limits")
	CapLocalCAAckDelay         = capsGeneral.bits("local_ca_ack_delay", 0x34, 20, 16, "code of the time that an answer takes: 4.096 us shifted by it")
	CapPortType                = capsGeneral.bits("port_type", 0x34, 9, 8, "kind of the port", portTypes)
	CapNumPorts                = capsGeneral.bits("num_ports", 0x34, 7, 0, "how many ports")
	CapLogMaxMsg               = capsGeneral.bits("log_max_msg", 0x38, 28, 24, "logarithm of the bytes of a message")
	CapCQEVersion              = capsGeneral.bits("cqe_version", 0x3c, 3, 0, "version of CQEs; 1: they have the user index")
	CapCompactAddressVector    = capsGeneral.bits("compact_address_vector", 0x40, 31, 31, "an address vector may be without GID and MAC address")
	CapUMRModifyAtomicDisabled = capsGeneral.bits("umr_modify_atomic_disabled", 0x40, 23, 23, "a work request (UMR) cannot give the right to do atomics")
	CapWQSignature             = capsGeneral.bits("wq_signature", 0x40, 11, 11, "work requests may have signatures")
	CapDCT                     = capsGeneral.bits("dct", 0x40, 5, 5, "dynamically connected targets")
	CapRoCE                    = capsGeneral.bits("roce", 0x40, 2, 2, "RoCE; group 4 has its limits")
	CapAtomic                  = capsGeneral.bits("atomic", 0x40, 1, 1, "atomics; group 3 has their limits")
	CapCQOI                    = capsGeneral.bits("cq_oi", 0x44, 31, 31, "a completion queue may ignore overruns")
	CapCQResize                = capsGeneral.bits("cq_resize", 0x44, 30, 30, "completion queues can be resized")
	CapPage                    = capsGeneral.bits("pg", 0x44, 24, 24, "memory on demand (ODP)")
	CapUD                      = capsGeneral.bits("ud", 0x44, 2, 2, "transport UD")
	CapUC                      = capsGeneral.bits("uc", 0x44, 1, 1, "transport UC")
	CapRC                      = capsGeneral.bits("rc", 0x44, 0, 0, "transport RC")
	CapUAR4K                   = capsGeneral.bits("uar_4k", 0x48, 31, 31, "UAR pages have 4096 bytes, whatever the host's pages have")
	CapLogPageSize             = capsGeneral.bits("log_pg_sz", 0x48, 7, 0, "logarithm of the bytes of the smallest page")
	CapBF                      = capsGeneral.bits("bf", 0x4c, 31, 31, "registers take whole WQEs (BlueFlame)")
	CapLogBFRegSize            = capsGeneral.bits("log_bf_reg_size", 0x4c, 20, 16, "logarithm of the bytes of a register: of both its halves")
	CapMaxWQESizeSQ            = capsGeneral.bits("max_wqe_sz_sq", 0x50, 15, 0, "bytes of the longest WQE of a send queue")
	CapMaxWQESizeRQ            = capsGeneral.bits("max_wqe_sz_rq", 0x54, 15, 0, "bytes of the longest WQE of a receive queue")
	CapLogMaxPD                = capsGeneral.bits("log_max_pd", 0x64, 20, 16, "logarithm of how many protection domains")
	CapLogMaxRMP               = capsGeneral.bits("log_max_rmp", 0x70, 28, 24, "logarithm of how many RMPs")
	CapGeneralObjTypes         = capsGeneral.bits("general_obj_types", 0x80, 31, 0, "bit n: CREATE_GENERAL_OBJECT makes objects of type 32+n")
	CapLogUARPageSize          = capsGeneral.bits("log_uar_page_sz", 0x90, 15, 0, "logarithm of the bytes of a UAR page")
	CapDeviceFrequencyKHz      = capsGeneral.bits("device_frequency_khz", 0x9c, 31, 0, "frequency of the clock of CQEs, in kHz")
	CapNumOfUARsPerPage        = capsGeneral.bits("num_of_uars_per_page", 0xa4, 31, 0, "UARs in a page of the host")
	CapLogMaxAtomicSizeQP      = capsGeneral.bits("log_max_atomic_size_qp", 0xb0, 31, 24, "logarithm of the bytes of an atomic")
	CapMiniCQERespStrideIndex  = capsGeneral.bits("mini_cqe_resp_stride_index", 0xb4, 3, 3, "compressed CQEs of receives may have the entry's index")
	CapCQECompression128       = capsGeneral.bits("cqe_compression_128b", 0xb4, 1, 1, "CQEs of 128 bytes can be compressed")
	CapCQECompression          = capsGeneral.bits("cqe_compression", 0xb4, 0, 0, "CQEs can be compressed")
	CapCQECompressionMaxNum    = capsGeneral.bits("cqe_compression_max_num", 0xb8, 15, 0, "CQEs in one compressed session")
)

// Operations of a transport with memory on demand (ODP): from the highest bit on SEND, receives, WRITE,
// READ, atomics, receives of an SRQ.
var (
	capsODP       = &Group{Name: "odp_cap", At: HeadSize, Context: true}
	CapRCODPCaps  = capsODP.bits("rc_odp_caps", 0x10, 31, 26, "what RC does with memory on demand")
	CapUCODPCaps  = capsODP.bits("uc_odp_caps", 0x14, 31, 26, "what UC does with memory on demand")
	CapUDODPCaps  = capsODP.bits("ud_odp_caps", 0x18, 31, 26, "what UD does with memory on demand")
	CapXRCODPCaps = capsODP.bits("xrc_odp_caps", 0x1c, 31, 26, "what XRC does with memory on demand")
	CapDCODPCaps  = capsODP.bits("dc_odp_caps", 0x20, 31, 26, "what DC does with memory on demand")
)

// Atomics (group 3).
var (
	capsAtomic          = &Group{Name: "atomic_caps", At: HeadSize, Context: true}
	CapAtomicByteOrder  = capsAtomic.bits("atomic_req_8B_endianness_mode", 0x08, 31, 30, "0: old values of 8 bytes come big-endian; 1: in host order")
	CapAtomicHostOrder  = capsAtomic.bits("supported_atomic_req_8B_endianness_mode_1", 0x08, 25, 25, "host order is possible")
	CapAtomicOperations = capsAtomic.bits("atomic_operations", 0x10, 15, 0, "bits 0 to 3: compare and swap, fetch and add, both with masks")
	CapAtomicSizeQP     = capsAtomic.bits("atomic_size_qp", 0x14, 15, 0, "bit n: atomics of 2^n bytes, of queue pairs")
	CapAtomicSizeDC     = capsAtomic.bits("atomic_size_dc", 0x18, 15, 0, "bit n: atomics of 2^n bytes, of DCIs")
)

// RoCE (group 4).
var (
	capsRoCE                = &Group{Name: "roce_cap", At: HeadSize, Context: true}
	CapRRoCEMaxSrcUDPPort   = capsRoCE.bits("r_roce_max_src_udp_port", 0x18, 31, 16, "greatest UDP source port (RoCE v2)")
	CapRRoCEMinSrcUDPPort   = capsRoCE.bits("r_roce_min_src_udp_port", 0x18, 15, 0, "least UDP source port (RoCE v2)")
	CapRoCEAddressTableSize = capsRoCE.bits("roce_address_table_size", 0x1c, 15, 0, "GIDs of the port")
)

// Device memory (group 0xf).
var (
	capsDeviceMemory            = &Group{Name: "device_mem_cap", At: HeadSize, Context: true}
	CapMemic                    = capsDeviceMemory.bits("memic", 0x00, 31, 31, "there is device memory")
	CapLogMaxMemicAddrAlignment = capsDeviceMemory.bits("log_max_memic_addr_alignment", 0x04, 7, 0, "logarithm of the greatest alignment")
	CapMemicBarSize             = capsDeviceMemory.bits("memic_bar_size", 0x10, 31, 0, "bytes of all device memory")
	CapMaxMemicSize             = capsDeviceMemory.bits("max_memic_size", 0x14, 31, 0, "bytes of one allocation")
)

// More objects and operations.
var (
	capsGeneral2           = &Group{Name: "cmd_hca_cap_2", At: HeadSize, Context: true}
	CapSendDBRModeNoDBRExt = capsGeneral2.bits("send_dbr_mode_no_dbr_ext", 0x5c, 30, 30, "queue pairs may have send_dbr_mode 1: registers alone announce work")
)

var portTypes = map[uint64]string{0: "InfiniBand", 1: "Ethernet"}
