package devx

// The context of an RMP, a receive queue that queue pairs share, in CREATE_RMP.
var (
	rmpc = &Group{Name: "rmpc", At: 0x20, Context: true}

	RMPState = rmpc.bits("state", 0x00, 23, 20, "state", map[uint64]string{1: "ready", 3: "error"})
	RMPBasic = rmpc.bits("basic_cyclic_rcv_wqe", 0x04, 31, 31, "entries of a cyclic queue have no header with a link")

	wq = &Group{Name: "wq", At: 0x50, Context: true}

	WQType           = wq.bits("wq_type", 0x00, 31, 28, "how entries follow each other", wqTypeNames)
	WQSignature      = wq.bits("wq_signature", 0x00, 27, 27, "entries have signatures")
	WQPadding        = wq.bits("end_padding_mode", 0x00, 26, 25, "padding of receives", paddingNames)
	WQSlave          = wq.bits("cd_slave", 0x00, 24, 24, "receives wait for RECV_EN of another queue")
	WQSkipFirst      = wq.bits("hds_skip_first_sge", 0x04, 31, 31, "headers do not go to the first buffer")
	WQHeaderSize     = wq.bits("log2_hds_buf_size", 0x04, 30, 28, "logarithm of the bytes of a buffer of headers")
	WQPageOffset     = wq.bits("page_offset", 0x04, 20, 16, "where in the first page the queue begins; not used with a umem")
	WQLimit          = wq.bits("lwm", 0x04, 15, 0, "an event comes when fewer entries than this are ready")
	WQPD             = wq.bits("pd", 0x08, 23, 0, "number of the protection domain")
	WQUAR            = wq.bits("uar_page", 0x0c, 23, 0, "number of the UAR page; not used")
	WQRecord         = wq.word("dbr_addr", 0x10, "where in the umem the doorbell record is, in bytes")
	WQDone           = wq.bits("hw_counter", 0x18, 31, 0, "entries that the device has used")
	WQPosted         = wq.bits("sw_counter", 0x1c, 31, 0, "entries that were announced")
	WQLogStride      = wq.bits("log_wq_stride", 0x20, 19, 16, "logarithm of the bytes of an entry")
	WQLogPage        = wq.bits("log_wq_pg_sz", 0x20, 12, 8, "logarithm of the bytes of a page, less 12; not used with a umem")
	WQLogSize        = wq.bits("log_wq_sz", 0x20, 4, 0, "logarithm of the entries")
	WQRecordValid    = wq.bits("dbr_umem_valid", 0x24, 31, 31, "the number of the record's umem counts; the kernel sets it")
	WQUmemValid      = wq.bits("wq_umem_valid", 0x24, 30, 30, "the number of the umem counts; the kernel sets it")
	WQHairpinPackets = wq.bits("log_hairpin_num_packets", 0x24, 28, 24, "logarithm of the packets of a hairpin")
	WQHairpinSize    = wq.bits("log_hairpin_data_sz", 0x24, 20, 16, "logarithm of the bytes of a hairpin")
	WQStrides        = wq.bits("log_wqe_num_of_strides", 0x24, 11, 8, "logarithm of the strides of an entry, less 9")
	WQShift          = wq.bits("two_byte_shift_en", 0x24, 7, 7, "packets begin 2 bytes after the buffer")
	WQStrideSize     = wq.bits("log_wqe_stride_size", 0x24, 2, 0, "logarithm of the bytes of a stride, less 6")
	WQRecordUmem     = wq.bits("dbr_umem_id", 0x28, 31, 0, "number of the umem that has the doorbell record")
	WQUmem           = wq.bits("wq_umem_id", 0x2c, 31, 0, "number of the umem that has the entries")
	WQUmemOffset     = wq.word("wq_umem_offset", 0x30, "where in the umem the entries begin, in bytes")
)

// Values of WQType.
const (
	WQLinked = 0
	WQCyclic = 1
)
