package abi

// rdma/ib_user_verbs.h: write commands, and their requests and responses.

// enum ib_uverbs_write_cmds.
const (
	CmdQueryDevice       = 1  // IB_USER_VERBS_CMD_QUERY_DEVICE
	CmdAllocPD           = 3  // IB_USER_VERBS_CMD_ALLOC_PD
	CmdCreateAH          = 5  // IB_USER_VERBS_CMD_CREATE_AH
	CmdRegMR             = 9  // IB_USER_VERBS_CMD_REG_MR
	CmdReregMR           = 11 // IB_USER_VERBS_CMD_REREG_MR
	CmdAllocMW           = 14 // IB_USER_VERBS_CMD_ALLOC_MW
	CmdCreateCompChannel = 17 // IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL
	CmdResizeCQ          = 19 // IB_USER_VERBS_CMD_RESIZE_CQ
	CmdQueryQP           = 25 // IB_USER_VERBS_CMD_QUERY_QP
	CmdModifyQP          = 26 // IB_USER_VERBS_CMD_MODIFY_QP
	CmdAttachMcast       = 30 // IB_USER_VERBS_CMD_ATTACH_MCAST
	CmdDetachMcast       = 31 // IB_USER_VERBS_CMD_DETACH_MCAST
	CmdModifySRQ         = 33 // IB_USER_VERBS_CMD_MODIFY_SRQ
	CmdQuerySRQ          = 34 // IB_USER_VERBS_CMD_QUERY_SRQ
	CmdOpenXRCD          = 37 // IB_USER_VERBS_CMD_OPEN_XRCD
	CmdOpenQP            = 40 // IB_USER_VERBS_CMD_OPEN_QP
)

// Commands with IB_USER_VERBS_CMD_FLAG_EXTENDED.
const (
	CmdFlagExtended  = 1 << 31 // IB_USER_VERBS_CMD_FLAG_EXTENDED
	ExCmdQueryDevice = 1       // IB_USER_VERBS_EX_CMD_QUERY_DEVICE
	ExCmdModifyQP    = 26      // IB_USER_VERBS_EX_CMD_MODIFY_QP
	ExCmdModifyCQ    = 57      // IB_USER_VERBS_EX_CMD_MODIFY_CQ
)

// struct ib_uverbs_query_device.
const (
	QueryDeviceSize = 8 // sizeof(struct ib_uverbs_query_device)
)

// struct ib_uverbs_query_device_resp.
const (
	QueryDeviceRespSize                  = 176 // sizeof(struct ib_uverbs_query_device_resp)
	QueryDeviceRespFWVer                 = 0   // offsetof(struct ib_uverbs_query_device_resp, fw_ver)
	QueryDeviceRespNodeGUID              = 8   // offsetof(struct ib_uverbs_query_device_resp, node_guid)
	QueryDeviceRespSysImageGUID          = 16  // offsetof(struct ib_uverbs_query_device_resp, sys_image_guid)
	QueryDeviceRespMaxMRSize             = 24  // offsetof(struct ib_uverbs_query_device_resp, max_mr_size)
	QueryDeviceRespPageSizeCap           = 32  // offsetof(struct ib_uverbs_query_device_resp, page_size_cap)
	QueryDeviceRespVendorID              = 40  // offsetof(struct ib_uverbs_query_device_resp, vendor_id)
	QueryDeviceRespVendorPartID          = 44  // offsetof(struct ib_uverbs_query_device_resp, vendor_part_id)
	QueryDeviceRespHWVer                 = 48  // offsetof(struct ib_uverbs_query_device_resp, hw_ver)
	QueryDeviceRespMaxQP                 = 52  // offsetof(struct ib_uverbs_query_device_resp, max_qp)
	QueryDeviceRespMaxQPWR               = 56  // offsetof(struct ib_uverbs_query_device_resp, max_qp_wr)
	QueryDeviceRespDeviceCapFlags        = 60  // offsetof(struct ib_uverbs_query_device_resp, device_cap_flags)
	QueryDeviceRespMaxSGE                = 64  // offsetof(struct ib_uverbs_query_device_resp, max_sge)
	QueryDeviceRespMaxSGERd              = 68  // offsetof(struct ib_uverbs_query_device_resp, max_sge_rd)
	QueryDeviceRespMaxCQ                 = 72  // offsetof(struct ib_uverbs_query_device_resp, max_cq)
	QueryDeviceRespMaxCQE                = 76  // offsetof(struct ib_uverbs_query_device_resp, max_cqe)
	QueryDeviceRespMaxMR                 = 80  // offsetof(struct ib_uverbs_query_device_resp, max_mr)
	QueryDeviceRespMaxPD                 = 84  // offsetof(struct ib_uverbs_query_device_resp, max_pd)
	QueryDeviceRespMaxQPRdAtom           = 88  // offsetof(struct ib_uverbs_query_device_resp, max_qp_rd_atom)
	QueryDeviceRespMaxResRdAtom          = 96  // offsetof(struct ib_uverbs_query_device_resp, max_res_rd_atom)
	QueryDeviceRespMaxQPInitRdAtom       = 100 // offsetof(struct ib_uverbs_query_device_resp, max_qp_init_rd_atom)
	QueryDeviceRespAtomicCap             = 108 // offsetof(struct ib_uverbs_query_device_resp, atomic_cap)
	QueryDeviceRespMaxMW                 = 120 // offsetof(struct ib_uverbs_query_device_resp, max_mw)
	QueryDeviceRespMaxMcastGrp           = 132 // offsetof(struct ib_uverbs_query_device_resp, max_mcast_grp)
	QueryDeviceRespMaxMcastQPAttach      = 136 // offsetof(struct ib_uverbs_query_device_resp, max_mcast_qp_attach)
	QueryDeviceRespMaxTotalMcastQPAttach = 140 // offsetof(struct ib_uverbs_query_device_resp, max_total_mcast_qp_attach)
	QueryDeviceRespMaxAH                 = 144 // offsetof(struct ib_uverbs_query_device_resp, max_ah)
	QueryDeviceRespMaxSRQ                = 156 // offsetof(struct ib_uverbs_query_device_resp, max_srq)
	QueryDeviceRespMaxSRQWR              = 160 // offsetof(struct ib_uverbs_query_device_resp, max_srq_wr)
	QueryDeviceRespMaxSRQSGE             = 164 // offsetof(struct ib_uverbs_query_device_resp, max_srq_sge)
	QueryDeviceRespMaxPKeys              = 168 // offsetof(struct ib_uverbs_query_device_resp, max_pkeys)
	QueryDeviceRespLocalCaAckDelay       = 170 // offsetof(struct ib_uverbs_query_device_resp, local_ca_ack_delay)
	QueryDeviceRespPhysPortCnt           = 171 // offsetof(struct ib_uverbs_query_device_resp, phys_port_cnt)
)

// struct ib_uverbs_ex_query_device.
const (
	ExQueryDeviceSize     = 8 // sizeof(struct ib_uverbs_ex_query_device)
	ExQueryDeviceCompMask = 0 // offsetof(struct ib_uverbs_ex_query_device, comp_mask)
	ExQueryDeviceReserved = 4 // offsetof(struct ib_uverbs_ex_query_device, reserved)
)

// struct ib_uverbs_ex_query_device_resp.
const (
	ExQueryDeviceRespSize             = 304 // sizeof(struct ib_uverbs_ex_query_device_resp)
	ExQueryDeviceRespBase             = 0   // offsetof(struct ib_uverbs_ex_query_device_resp, base)
	ExQueryDeviceRespCompMask         = 176 // offsetof(struct ib_uverbs_ex_query_device_resp, comp_mask)
	ExQueryDeviceRespResponseLength   = 180 // offsetof(struct ib_uverbs_ex_query_device_resp, response_length)
	ExQueryDeviceRespODPCaps          = 184 // offsetof(struct ib_uverbs_ex_query_device_resp, odp_caps)
	ExQueryDeviceRespTimestampMask    = 208 // offsetof(struct ib_uverbs_ex_query_device_resp, timestamp_mask)
	ExQueryDeviceRespHCACoreClock     = 216 // offsetof(struct ib_uverbs_ex_query_device_resp, hca_core_clock)
	ExQueryDeviceRespDeviceCapFlagsEx = 224 // offsetof(struct ib_uverbs_ex_query_device_resp, device_cap_flags_ex)
	ExQueryDeviceRespCQModerationCaps = 280 // offsetof(struct ib_uverbs_ex_query_device_resp, cq_moderation_caps)
	ExQueryDeviceRespODPRC            = 192 // offsetof(struct ib_uverbs_ex_query_device_resp, odp_caps.per_transport_caps.rc_odp_caps)
	ExQueryDeviceRespODPUC            = 196 // offsetof(struct ib_uverbs_ex_query_device_resp, odp_caps.per_transport_caps.uc_odp_caps)
	ExQueryDeviceRespODPUD            = 200 // offsetof(struct ib_uverbs_ex_query_device_resp, odp_caps.per_transport_caps.ud_odp_caps)
	ExQueryDeviceRespMaxDMSize        = 288 // offsetof(struct ib_uverbs_ex_query_device_resp, max_dm_size)
	ExQueryDeviceRespXRCODPCaps       = 296 // offsetof(struct ib_uverbs_ex_query_device_resp, xrc_odp_caps)
)

// enum ib_uverbs_device_cap_flags.
const (
	DeviceBadPKeyCntr      = 1 << 1  // IB_UVERBS_DEVICE_BAD_PKEY_CNTR
	DeviceBadQKeyCntr      = 1 << 2  // IB_UVERBS_DEVICE_BAD_QKEY_CNTR
	DevicePortActiveEvent  = 1 << 10 // IB_UVERBS_DEVICE_PORT_ACTIVE_EVENT
	DeviceSysImageGUID     = 1 << 11 // IB_UVERBS_DEVICE_SYS_IMAGE_GUID
	DeviceRCRNRNakGen      = 1 << 12 // IB_UVERBS_DEVICE_RC_RNR_NAK_GEN
	DeviceXRC              = 1 << 20 // IB_UVERBS_DEVICE_XRC
	DeviceMemWindow        = 1 << 17 // IB_UVERBS_DEVICE_MEM_WINDOW
	DeviceMemMgtExtensions = 1 << 21 // IB_UVERBS_DEVICE_MEM_MGT_EXTENSIONS
	DeviceMemWindowType2B  = 1 << 24 // IB_UVERBS_DEVICE_MEM_WINDOW_TYPE_2B
)

// struct ib_uverbs_query_port_resp.
const (
	QueryPortRespSize         = 40 // sizeof(struct ib_uverbs_query_port_resp)
	QueryPortRespPortCapFlags = 0  // offsetof(struct ib_uverbs_query_port_resp, port_cap_flags)
	QueryPortRespMaxMsgSz     = 4  // offsetof(struct ib_uverbs_query_port_resp, max_msg_sz)
	QueryPortRespGIDTableLen  = 16 // offsetof(struct ib_uverbs_query_port_resp, gid_tbl_len)
	QueryPortRespPKeyTableLen = 20 // offsetof(struct ib_uverbs_query_port_resp, pkey_tbl_len)
	QueryPortRespLID          = 22 // offsetof(struct ib_uverbs_query_port_resp, lid)
	QueryPortRespSMLID        = 24 // offsetof(struct ib_uverbs_query_port_resp, sm_lid)
	QueryPortRespState        = 26 // offsetof(struct ib_uverbs_query_port_resp, state)
	QueryPortRespMaxMTU       = 27 // offsetof(struct ib_uverbs_query_port_resp, max_mtu)
	QueryPortRespActiveMTU    = 28 // offsetof(struct ib_uverbs_query_port_resp, active_mtu)
	QueryPortRespActiveWidth  = 34 // offsetof(struct ib_uverbs_query_port_resp, active_width)
	QueryPortRespActiveSpeed  = 35 // offsetof(struct ib_uverbs_query_port_resp, active_speed)
	QueryPortRespPhysState    = 36 // offsetof(struct ib_uverbs_query_port_resp, phys_state)
	QueryPortRespLinkLayer    = 37 // offsetof(struct ib_uverbs_query_port_resp, link_layer)
)

// struct ib_uverbs_alloc_pd.
const (
	AllocPDSize = 8 // sizeof(struct ib_uverbs_alloc_pd)
)

// struct ib_uverbs_alloc_pd_resp.
const (
	AllocPDRespSize = 4 // sizeof(struct ib_uverbs_alloc_pd_resp)
)

// struct ib_uverbs_create_ah.
const (
	CreateAHSize     = 56 // sizeof(struct ib_uverbs_create_ah)
	CreateAHPDHandle = 16 // offsetof(struct ib_uverbs_create_ah, pd_handle)
	CreateAHAttr     = 24 // offsetof(struct ib_uverbs_create_ah, attr)
)

// struct ib_uverbs_create_ah_resp.
const (
	CreateAHRespSize = 4 // sizeof(struct ib_uverbs_create_ah_resp)
)

// struct ib_uverbs_ah_attr.
const (
	AHAttrSize         = 32 // sizeof(struct ib_uverbs_ah_attr)
	AHAttrGRHDGID      = 0  // offsetof(struct ib_uverbs_ah_attr, grh.dgid)
	AHAttrGRHSGIDIndex = 20 // offsetof(struct ib_uverbs_ah_attr, grh.sgid_index)
	AHAttrDLID         = 24 // offsetof(struct ib_uverbs_ah_attr, dlid)
	AHAttrIsGlobal     = 29 // offsetof(struct ib_uverbs_ah_attr, is_global)
	AHAttrPortNum      = 30 // offsetof(struct ib_uverbs_ah_attr, port_num)
)

// struct ib_uverbs_reg_mr.
const (
	RegMRSize        = 40 // sizeof(struct ib_uverbs_reg_mr)
	RegMRStart       = 8  // offsetof(struct ib_uverbs_reg_mr, start)
	RegMRLength      = 16 // offsetof(struct ib_uverbs_reg_mr, length)
	RegMRHCAVA       = 24 // offsetof(struct ib_uverbs_reg_mr, hca_va)
	RegMRPDHandle    = 32 // offsetof(struct ib_uverbs_reg_mr, pd_handle)
	RegMRAccessFlags = 36 // offsetof(struct ib_uverbs_reg_mr, access_flags)
)

// struct ib_uverbs_reg_mr_resp.
const (
	RegMRRespSize = 12 // sizeof(struct ib_uverbs_reg_mr_resp)
)

// struct ib_uverbs_rereg_mr.
const (
	ReregMRSize        = 48 // sizeof(struct ib_uverbs_rereg_mr)
	ReregMRMRHandle    = 8  // offsetof(struct ib_uverbs_rereg_mr, mr_handle)
	ReregMRFlags       = 12 // offsetof(struct ib_uverbs_rereg_mr, flags)
	ReregMRStart       = 16 // offsetof(struct ib_uverbs_rereg_mr, start)
	ReregMRLength      = 24 // offsetof(struct ib_uverbs_rereg_mr, length)
	ReregMRHCAVA       = 32 // offsetof(struct ib_uverbs_rereg_mr, hca_va)
	ReregMRPDHandle    = 40 // offsetof(struct ib_uverbs_rereg_mr, pd_handle)
	ReregMRAccessFlags = 44 // offsetof(struct ib_uverbs_rereg_mr, access_flags)
)

// struct ib_uverbs_rereg_mr_resp.
const (
	ReregMRRespSize = 8 // sizeof(struct ib_uverbs_rereg_mr_resp)
)

// struct ib_uverbs_alloc_mw.
const (
	AllocMWSize     = 16 // sizeof(struct ib_uverbs_alloc_mw)
	AllocMWPDHandle = 8  // offsetof(struct ib_uverbs_alloc_mw, pd_handle)
	AllocMWMWType   = 12 // offsetof(struct ib_uverbs_alloc_mw, mw_type)
)

// struct ib_uverbs_alloc_mw_resp.
const (
	AllocMWRespSize = 8 // sizeof(struct ib_uverbs_alloc_mw_resp)
)

// struct ib_uverbs_create_comp_channel.
const (
	CreateCompChannelSize = 8 // sizeof(struct ib_uverbs_create_comp_channel)
)

// struct ib_uverbs_create_comp_channel_resp.
const (
	CreateCompChannelRespSize = 4 // sizeof(struct ib_uverbs_create_comp_channel_resp)
)

// enum ib_uverbs_ex_create_cq_flags.
const (
	CQFlagsTimestampCompletion = 1 << 0 // IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION
	CQFlagsIgnoreOverrun       = 1 << 1 // IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN
)

// struct ib_uverbs_resize_cq.
const (
	ResizeCQSize     = 16 // sizeof(struct ib_uverbs_resize_cq)
	ResizeCQCQHandle = 8  // offsetof(struct ib_uverbs_resize_cq, cq_handle)
	ResizeCQCQE      = 12 // offsetof(struct ib_uverbs_resize_cq, cqe)
)

// struct ib_uverbs_resize_cq_resp.
const (
	ResizeCQRespSize = 8 // sizeof(struct ib_uverbs_resize_cq_resp)
)

// struct ib_uverbs_destroy_cq_resp.
const (
	DestroyCQRespSize = 8 // sizeof(struct ib_uverbs_destroy_cq_resp)
)

// struct ib_uverbs_destroy_qp_resp.
const (
	DestroyQPRespSize = 4 // sizeof(struct ib_uverbs_destroy_qp_resp)
)

// struct ib_uverbs_destroy_srq_resp.
const (
	DestroySRQRespSize = 4 // sizeof(struct ib_uverbs_destroy_srq_resp)
)

// struct ib_uverbs_qp_dest.
const (
	QPDestSize         = 32 // sizeof(struct ib_uverbs_qp_dest)
	QPDestDGID         = 0  // offsetof(struct ib_uverbs_qp_dest, dgid)
	QPDestDLID         = 20 // offsetof(struct ib_uverbs_qp_dest, dlid)
	QPDestSGIDIndex    = 24 // offsetof(struct ib_uverbs_qp_dest, sgid_index)
	QPDestHopLimit     = 25 // offsetof(struct ib_uverbs_qp_dest, hop_limit)
	QPDestTrafficClass = 26 // offsetof(struct ib_uverbs_qp_dest, traffic_class)
	QPDestIsGlobal     = 30 // offsetof(struct ib_uverbs_qp_dest, is_global)
	QPDestPortNum      = 31 // offsetof(struct ib_uverbs_qp_dest, port_num)
)

// struct ib_uverbs_query_qp.
const (
	QueryQPSize     = 16 // sizeof(struct ib_uverbs_query_qp)
	QueryQPQPHandle = 8  // offsetof(struct ib_uverbs_query_qp, qp_handle)
	QueryQPAttrMask = 12 // offsetof(struct ib_uverbs_query_qp, attr_mask)
)

// struct ib_uverbs_query_qp_resp.
const (
	QueryQPRespSize            = 128 // sizeof(struct ib_uverbs_query_qp_resp)
	QueryQPRespDest            = 0   // offsetof(struct ib_uverbs_query_qp_resp, dest)
	QueryQPRespMaxSendWR       = 64  // offsetof(struct ib_uverbs_query_qp_resp, max_send_wr)
	QueryQPRespQKey            = 84  // offsetof(struct ib_uverbs_query_qp_resp, qkey)
	QueryQPRespRQPSN           = 88  // offsetof(struct ib_uverbs_query_qp_resp, rq_psn)
	QueryQPRespSQPSN           = 92  // offsetof(struct ib_uverbs_query_qp_resp, sq_psn)
	QueryQPRespDestQPNum       = 96  // offsetof(struct ib_uverbs_query_qp_resp, dest_qp_num)
	QueryQPRespQPAccessFlags   = 100 // offsetof(struct ib_uverbs_query_qp_resp, qp_access_flags)
	QueryQPRespPKeyIndex       = 104 // offsetof(struct ib_uverbs_query_qp_resp, pkey_index)
	QueryQPRespQPState         = 108 // offsetof(struct ib_uverbs_query_qp_resp, qp_state)
	QueryQPRespCurQPState      = 109 // offsetof(struct ib_uverbs_query_qp_resp, cur_qp_state)
	QueryQPRespPathMTU         = 110 // offsetof(struct ib_uverbs_query_qp_resp, path_mtu)
	QueryQPRespMaxRdAtomic     = 113 // offsetof(struct ib_uverbs_query_qp_resp, max_rd_atomic)
	QueryQPRespMaxDestRdAtomic = 114 // offsetof(struct ib_uverbs_query_qp_resp, max_dest_rd_atomic)
	QueryQPRespMinRNRTimer     = 115 // offsetof(struct ib_uverbs_query_qp_resp, min_rnr_timer)
	QueryQPRespPortNum         = 116 // offsetof(struct ib_uverbs_query_qp_resp, port_num)
	QueryQPRespTimeout         = 117 // offsetof(struct ib_uverbs_query_qp_resp, timeout)
	QueryQPRespRetryCnt        = 118 // offsetof(struct ib_uverbs_query_qp_resp, retry_cnt)
	QueryQPRespRNRRetry        = 119 // offsetof(struct ib_uverbs_query_qp_resp, rnr_retry)
	QueryQPRespSQSigAll        = 122 // offsetof(struct ib_uverbs_query_qp_resp, sq_sig_all)
)

// struct ib_uverbs_modify_qp.
const (
	ModifyQPSize             = 112 // sizeof(struct ib_uverbs_modify_qp)
	ModifyQPDest             = 0   // offsetof(struct ib_uverbs_modify_qp, dest)
	ModifyQPQPHandle         = 64  // offsetof(struct ib_uverbs_modify_qp, qp_handle)
	ModifyQPAttrMask         = 68  // offsetof(struct ib_uverbs_modify_qp, attr_mask)
	ModifyQPQKey             = 72  // offsetof(struct ib_uverbs_modify_qp, qkey)
	ModifyQPRQPSN            = 76  // offsetof(struct ib_uverbs_modify_qp, rq_psn)
	ModifyQPSQPSN            = 80  // offsetof(struct ib_uverbs_modify_qp, sq_psn)
	ModifyQPDestQPNum        = 84  // offsetof(struct ib_uverbs_modify_qp, dest_qp_num)
	ModifyQPQPAccessFlags    = 88  // offsetof(struct ib_uverbs_modify_qp, qp_access_flags)
	ModifyQPPKeyIndex        = 92  // offsetof(struct ib_uverbs_modify_qp, pkey_index)
	ModifyQPQPState          = 96  // offsetof(struct ib_uverbs_modify_qp, qp_state)
	ModifyQPCurQPState       = 97  // offsetof(struct ib_uverbs_modify_qp, cur_qp_state)
	ModifyQPPathMTU          = 98  // offsetof(struct ib_uverbs_modify_qp, path_mtu)
	ModifyQPEnSQDAsyncNotify = 100 // offsetof(struct ib_uverbs_modify_qp, en_sqd_async_notify)
	ModifyQPMaxRdAtomic      = 101 // offsetof(struct ib_uverbs_modify_qp, max_rd_atomic)
	ModifyQPMaxDestRdAtomic  = 102 // offsetof(struct ib_uverbs_modify_qp, max_dest_rd_atomic)
	ModifyQPMinRNRTimer      = 103 // offsetof(struct ib_uverbs_modify_qp, min_rnr_timer)
	ModifyQPPortNum          = 104 // offsetof(struct ib_uverbs_modify_qp, port_num)
	ModifyQPTimeout          = 105 // offsetof(struct ib_uverbs_modify_qp, timeout)
	ModifyQPRetryCnt         = 106 // offsetof(struct ib_uverbs_modify_qp, retry_cnt)
	ModifyQPRNRRetry         = 107 // offsetof(struct ib_uverbs_modify_qp, rnr_retry)
)

// struct ib_uverbs_ex_modify_qp.
const (
	ExModifyQPSize      = 120 // sizeof(struct ib_uverbs_ex_modify_qp)
	ExModifyQPRateLimit = 112 // offsetof(struct ib_uverbs_ex_modify_qp, rate_limit)
)

// struct ib_uverbs_ex_modify_qp_resp.
const (
	ExModifyQPRespSize = 8 // sizeof(struct ib_uverbs_ex_modify_qp_resp)
)

// struct ib_uverbs_open_xrcd.
const (
	OpenXRCDSize   = 16 // sizeof(struct ib_uverbs_open_xrcd)
	OpenXRCDFD     = 8  // offsetof(struct ib_uverbs_open_xrcd, fd)
	OpenXRCDOflags = 12 // offsetof(struct ib_uverbs_open_xrcd, oflags)
)

// struct ib_uverbs_open_xrcd_resp.
const (
	OpenXRCDRespSize = 4 // sizeof(struct ib_uverbs_open_xrcd_resp)
)

// struct ib_uverbs_open_qp.
const (
	OpenQPSize       = 32 // sizeof(struct ib_uverbs_open_qp)
	OpenQPUserHandle = 8  // offsetof(struct ib_uverbs_open_qp, user_handle)
	OpenQPPDHandle   = 16 // offsetof(struct ib_uverbs_open_qp, pd_handle)
	OpenQPQPN        = 20 // offsetof(struct ib_uverbs_open_qp, qpn)
	OpenQPQPType     = 24 // offsetof(struct ib_uverbs_open_qp, qp_type)
)

// struct ib_uverbs_create_qp_resp.
const (
	CreateQPRespSize     = 32 // sizeof(struct ib_uverbs_create_qp_resp)
	CreateQPRespQPHandle = 0  // offsetof(struct ib_uverbs_create_qp_resp, qp_handle)
	CreateQPRespQPN      = 4  // offsetof(struct ib_uverbs_create_qp_resp, qpn)
)

// struct ib_uverbs_attach_mcast.
const (
	AttachMcastSize     = 24 // sizeof(struct ib_uverbs_attach_mcast)
	AttachMcastGID      = 0  // offsetof(struct ib_uverbs_attach_mcast, gid)
	AttachMcastQPHandle = 16 // offsetof(struct ib_uverbs_attach_mcast, qp_handle)
	AttachMcastMLID     = 20 // offsetof(struct ib_uverbs_attach_mcast, mlid)
)

// struct ib_uverbs_detach_mcast.
const (
	DetachMcastSize = 24 // sizeof(struct ib_uverbs_detach_mcast)
)

// struct ib_uverbs_modify_srq.
const (
	ModifySRQSize      = 16 // sizeof(struct ib_uverbs_modify_srq)
	ModifySRQSRQHandle = 0  // offsetof(struct ib_uverbs_modify_srq, srq_handle)
	ModifySRQAttrMask  = 4  // offsetof(struct ib_uverbs_modify_srq, attr_mask)
	ModifySRQSRQLimit  = 12 // offsetof(struct ib_uverbs_modify_srq, srq_limit)
)

// struct ib_uverbs_query_srq.
const (
	QuerySRQSize      = 16 // sizeof(struct ib_uverbs_query_srq)
	QuerySRQSRQHandle = 8  // offsetof(struct ib_uverbs_query_srq, srq_handle)
)

// struct ib_uverbs_query_srq_resp.
const (
	QuerySRQRespSize = 16 // sizeof(struct ib_uverbs_query_srq_resp)
)

// struct ib_uverbs_async_event_desc.
const (
	AsyncEventDescSize      = 16 // sizeof(struct ib_uverbs_async_event_desc)
	AsyncEventDescElement   = 0  // offsetof(struct ib_uverbs_async_event_desc, element)
	AsyncEventDescEventType = 8  // offsetof(struct ib_uverbs_async_event_desc, event_type)
)

// struct ib_uverbs_ex_modify_cq.
const (
	ExModifyCQSize     = 16 // sizeof(struct ib_uverbs_ex_modify_cq)
	ExModifyCQCQHandle = 0  // offsetof(struct ib_uverbs_ex_modify_cq, cq_handle)
	ExModifyCQAttrMask = 4  // offsetof(struct ib_uverbs_ex_modify_cq, attr_mask)
	ExModifyCQCount    = 8  // offsetof(struct ib_uverbs_ex_modify_cq, attr.cq_count)
	ExModifyCQPeriod   = 10 // offsetof(struct ib_uverbs_ex_modify_cq, attr.cq_period)
	ExModifyCQReserved = 12 // offsetof(struct ib_uverbs_ex_modify_cq, reserved)
)
