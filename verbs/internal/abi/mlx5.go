package abi

// rdma/mlx5-abi.h: private data of the mlx5 driver.

// enum mlx5_lib_caps.
const (
	MLX5LibCapDynUAR = 1 << 1 // MLX5_LIB_CAP_DYN_UAR
)

// enum mlx5_ib_alloc_uctx_flags.
const (
	MLX5AllocUctxDEVX = 1 << 0 // MLX5_IB_ALLOC_UCTX_DEVX
)

// struct mlx5_ib_alloc_ucontext_req.
const (
	MLX5AllocUcontextReqSize = 8 // sizeof(struct mlx5_ib_alloc_ucontext_req)
)

// struct mlx5_ib_alloc_ucontext_req_v2.
const (
	MLX5AllocUcontextReqV2Size    = 32 // sizeof(struct mlx5_ib_alloc_ucontext_req_v2)
	MLX5AllocUcontextReqV2Flags   = 8  // offsetof(struct mlx5_ib_alloc_ucontext_req_v2, flags)
	MLX5AllocUcontextReqV2LibCaps = 24 // offsetof(struct mlx5_ib_alloc_ucontext_req_v2, lib_caps)
)

// struct mlx5_ib_alloc_ucontext_resp.
const (
	MLX5AllocUcontextRespSize              = 72 // sizeof(struct mlx5_ib_alloc_ucontext_resp)
	MLX5AllocUcontextRespQPTabSize         = 0  // offsetof(struct mlx5_ib_alloc_ucontext_resp, qp_tab_size)
	MLX5AllocUcontextRespBFRegSize         = 4  // offsetof(struct mlx5_ib_alloc_ucontext_resp, bf_reg_size)
	MLX5AllocUcontextRespTotBFRegs         = 8  // offsetof(struct mlx5_ib_alloc_ucontext_resp, tot_bfregs)
	MLX5AllocUcontextRespCacheLineSize     = 12 // offsetof(struct mlx5_ib_alloc_ucontext_resp, cache_line_size)
	MLX5AllocUcontextRespMaxSQDescSz       = 16 // offsetof(struct mlx5_ib_alloc_ucontext_resp, max_sq_desc_sz)
	MLX5AllocUcontextRespMaxRQDescSz       = 18 // offsetof(struct mlx5_ib_alloc_ucontext_resp, max_rq_desc_sz)
	MLX5AllocUcontextRespMaxSendWQEBB      = 20 // offsetof(struct mlx5_ib_alloc_ucontext_resp, max_send_wqebb)
	MLX5AllocUcontextRespMaxRecvWR         = 24 // offsetof(struct mlx5_ib_alloc_ucontext_resp, max_recv_wr)
	MLX5AllocUcontextRespMaxSRQRecvWR      = 28 // offsetof(struct mlx5_ib_alloc_ucontext_resp, max_srq_recv_wr)
	MLX5AllocUcontextRespNumPorts          = 32 // offsetof(struct mlx5_ib_alloc_ucontext_resp, num_ports)
	MLX5AllocUcontextRespCompMask          = 36 // offsetof(struct mlx5_ib_alloc_ucontext_resp, comp_mask)
	MLX5AllocUcontextRespResponseLength    = 40 // offsetof(struct mlx5_ib_alloc_ucontext_resp, response_length)
	MLX5AllocUcontextRespCQEVersion        = 44 // offsetof(struct mlx5_ib_alloc_ucontext_resp, cqe_version)
	MLX5AllocUcontextRespCmdsSuppUHW       = 45 // offsetof(struct mlx5_ib_alloc_ucontext_resp, cmds_supp_uhw)
	MLX5AllocUcontextRespEthMinInline      = 46 // offsetof(struct mlx5_ib_alloc_ucontext_resp, eth_min_inline)
	MLX5AllocUcontextRespClockInfoVersions = 47 // offsetof(struct mlx5_ib_alloc_ucontext_resp, clock_info_versions)
	MLX5AllocUcontextRespLogUARSize        = 56 // offsetof(struct mlx5_ib_alloc_ucontext_resp, log_uar_size)
	MLX5AllocUcontextRespDumpFillMkey      = 68 // offsetof(struct mlx5_ib_alloc_ucontext_resp, dump_fill_mkey)
	MLX5AllocUcontextRespNumUARsPerPage    = 60 // offsetof(struct mlx5_ib_alloc_ucontext_resp, num_uars_per_page)
)

// enum mlx5_ib_alloc_ucontext_resp_mask.
const (
	MLX5AllocUcontextRespMaskDumpFillMkey = 1 << 1 // MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_DUMP_FILL_MKEY
)

// enum mlx5_user_cmds_supp_uhw.
const (
	MLX5UserCmdsSuppUHWQueryDevice = 1 << 0 // MLX5_USER_CMDS_SUPP_UHW_QUERY_DEVICE
	MLX5UserCmdsSuppUHWCreateAH    = 1 << 1 // MLX5_USER_CMDS_SUPP_UHW_CREATE_AH
)

// enum mlx5_user_inline_mode.
const (
	MLX5UserInlineModeL2 = 2 // MLX5_USER_INLINE_MODE_L2
)

// struct mlx5_ib_query_device_resp.
const (
	MLX5QueryDeviceRespSize           = 104 // sizeof(struct mlx5_ib_query_device_resp)
	MLX5QueryDeviceRespResponseLength = 4   // offsetof(struct mlx5_ib_query_device_resp, response_length)
	MLX5QueryDeviceRespCompMaxNum     = 32  // offsetof(struct mlx5_ib_query_device_resp, cqe_comp_caps.max_num)
	MLX5QueryDeviceRespCompFormats    = 36  // offsetof(struct mlx5_ib_query_device_resp, cqe_comp_caps.supported_format)
	MLX5QueryDeviceRespFlags          = 60  // offsetof(struct mlx5_ib_query_device_resp, flags)
	MLX5QueryDeviceRespStreams        = 100 // offsetof(struct mlx5_ib_query_device_resp, dci_streams_caps.max_log_num_concurent)
	MLX5QueryDeviceRespErrored        = 101 // offsetof(struct mlx5_ib_query_device_resp, dci_streams_caps.max_log_num_errored)
)

// enum mlx5_ib_query_dev_resp_flags.
const (
	MLX5QueryDevRespFlagsCQE128BComp = 1 << 0 // MLX5_IB_QUERY_DEV_RESP_FLAGS_CQE_128B_COMP
	MLX5QueryDevRespFlagsCQE128BPad  = 1 << 1 // MLX5_IB_QUERY_DEV_RESP_FLAGS_CQE_128B_PAD
)

// struct mlx5_ib_alloc_pd_resp.
const (
	MLX5AllocPDRespSize = 4 // sizeof(struct mlx5_ib_alloc_pd_resp)
)

// struct mlx5_ib_create_ah_resp.
const (
	MLX5CreateAHRespSize           = 16 // sizeof(struct mlx5_ib_create_ah_resp)
	MLX5CreateAHRespResponseLength = 0  // offsetof(struct mlx5_ib_create_ah_resp, response_length)
	MLX5CreateAHRespDMAC           = 4  // offsetof(struct mlx5_ib_create_ah_resp, dmac)
)

// struct mlx5_ib_create_cq.
const (
	MLX5CreateCQSize         = 32 // sizeof(struct mlx5_ib_create_cq)
	MLX5CreateCQBufAddr      = 0  // offsetof(struct mlx5_ib_create_cq, buf_addr)
	MLX5CreateCQDBAddr       = 8  // offsetof(struct mlx5_ib_create_cq, db_addr)
	MLX5CreateCQCQESize      = 16 // offsetof(struct mlx5_ib_create_cq, cqe_size)
	MLX5CreateCQCQECompEn    = 20 // offsetof(struct mlx5_ib_create_cq, cqe_comp_en)
	MLX5CreateCQCompFormat   = 21 // offsetof(struct mlx5_ib_create_cq, cqe_comp_res_format)
	MLX5CreateCQFlags        = 22 // offsetof(struct mlx5_ib_create_cq, flags)
	MLX5CreateCQUARPageIndex = 24 // offsetof(struct mlx5_ib_create_cq, uar_page_index)
)

// enum mlx5_ib_cqe_comp_res_format.
const (
	MLX5CQEResFormatHash       = 1 << 0 // MLX5_IB_CQE_RES_FORMAT_HASH
	MLX5CQEResFormatCsum       = 1 << 1 // MLX5_IB_CQE_RES_FORMAT_CSUM
	MLX5CQEResFormatCsumStrIdx = 1 << 2 // MLX5_IB_CQE_RES_FORMAT_CSUM_STRIDX
)

// struct mlx5_ib_create_cq_resp.
const (
	MLX5CreateCQRespSize     = 8 // sizeof(struct mlx5_ib_create_cq_resp)
	MLX5CreateCQRespCQN      = 0 // offsetof(struct mlx5_ib_create_cq_resp, cqn)
	MLX5CreateCQRespReserved = 4 // offsetof(struct mlx5_ib_create_cq_resp, reserved)
)

// enum mlx5_ib_create_cq_flags.
const (
	MLX5CreateCQFlagsUARPageIndex = 1 << 1 // MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX
	MLX5CreateCQFlagsRealTimeTS   = 1 << 2 // MLX5_IB_CREATE_CQ_FLAGS_REAL_TIME_TS
)

// struct mlx5_ib_resize_cq.
const (
	MLX5ResizeCQSize      = 16 // sizeof(struct mlx5_ib_resize_cq)
	MLX5ResizeCQBufAddr   = 0  // offsetof(struct mlx5_ib_resize_cq, buf_addr)
	MLX5ResizeCQCQESize   = 8  // offsetof(struct mlx5_ib_resize_cq, cqe_size)
	MLX5ResizeCQReserved0 = 10 // offsetof(struct mlx5_ib_resize_cq, reserved0)
)

// struct mlx5_ib_create_srq.
const (
	MLX5CreateSRQSize    = 32 // sizeof(struct mlx5_ib_create_srq)
	MLX5CreateSRQBufAddr = 0  // offsetof(struct mlx5_ib_create_srq, buf_addr)
	MLX5CreateSRQDBAddr  = 8  // offsetof(struct mlx5_ib_create_srq, db_addr)
	MLX5CreateSRQFlags   = 16 // offsetof(struct mlx5_ib_create_srq, flags)
	MLX5CreateSRQUIDX    = 24 // offsetof(struct mlx5_ib_create_srq, uidx)
)

// struct mlx5_ib_create_srq_resp.
const (
	MLX5CreateSRQRespSize     = 8 // sizeof(struct mlx5_ib_create_srq_resp)
	MLX5CreateSRQRespSRQN     = 0 // offsetof(struct mlx5_ib_create_srq_resp, srqn)
	MLX5CreateSRQRespReserved = 4 // offsetof(struct mlx5_ib_create_srq_resp, reserved)
)

// struct mlx5_ib_create_qp.
const (
	MLX5CreateQPSize       = 56 // sizeof(struct mlx5_ib_create_qp)
	MLX5CreateQPBufAddr    = 0  // offsetof(struct mlx5_ib_create_qp, buf_addr)
	MLX5CreateQPDBAddr     = 8  // offsetof(struct mlx5_ib_create_qp, db_addr)
	MLX5CreateQPSQWQECount = 16 // offsetof(struct mlx5_ib_create_qp, sq_wqe_count)
	MLX5CreateQPRQWQECount = 20 // offsetof(struct mlx5_ib_create_qp, rq_wqe_count)
	MLX5CreateQPRQWQEShift = 24 // offsetof(struct mlx5_ib_create_qp, rq_wqe_shift)
	MLX5CreateQPFlags      = 28 // offsetof(struct mlx5_ib_create_qp, flags)
	MLX5CreateQPUIDX       = 32 // offsetof(struct mlx5_ib_create_qp, uidx)
	MLX5CreateQPBFRegIndex = 36 // offsetof(struct mlx5_ib_create_qp, bfreg_index)
	MLX5CreateQPSQBufAddr  = 40 // offsetof(struct mlx5_ib_create_qp, sq_buf_addr)
	MLX5CreateQPAccessKey  = 40 // offsetof(struct mlx5_ib_create_qp, access_key)
	MLX5CreateQPStreams    = 52 // offsetof(struct mlx5_ib_create_qp, dci_streams.log_num_concurent)
	MLX5CreateQPErrored    = 53 // offsetof(struct mlx5_ib_create_qp, dci_streams.log_num_errored)
)

// enum: flags of struct mlx5_ib_create_qp.
const (
	MLX5QPFlagSignature       = 1 << 0  // MLX5_QP_FLAG_SIGNATURE
	MLX5QPFlagScatterCQE      = 1 << 1  // MLX5_QP_FLAG_SCATTER_CQE
	MLX5QPFlagTypeDCT         = 1 << 4  // MLX5_QP_FLAG_TYPE_DCT
	MLX5QPFlagTypeDCI         = 1 << 5  // MLX5_QP_FLAG_TYPE_DCI
	MLX5QPFlagAllowScatterCQE = 1 << 8  // MLX5_QP_FLAG_ALLOW_SCATTER_CQE
	MLX5QPFlagUARPageIndex    = 1 << 10 // MLX5_QP_FLAG_UAR_PAGE_INDEX
	MLX5QPFlagDCIStream       = 1 << 11 // MLX5_QP_FLAG_DCI_STREAM
)

// struct mlx5_ib_create_qp_resp.
const (
	MLX5CreateQPRespSize = 40 // sizeof(struct mlx5_ib_create_qp_resp)
)

// struct mlx5_ib_modify_qp_resp.
const (
	MLX5ModifyQPRespSize = 16 // sizeof(struct mlx5_ib_modify_qp_resp)
	MLX5ModifyQPRespDCTN = 4  // offsetof(struct mlx5_ib_modify_qp_resp, dctn)
)

// enum mlx5_ib_mmap_cmd.
const (
	MLX5MmapGetContiguousPages = 1 // MLX5_IB_MMAP_GET_CONTIGUOUS_PAGES
	MLX5MmapClockInfo          = 7 // MLX5_IB_MMAP_CLOCK_INFO
	MLX5MmapDeviceMem          = 8 // MLX5_IB_MMAP_DEVICE_MEM
)

// struct mlx5_ib_clock_info.
const (
	MLX5ClockInfoSize           = 56 // sizeof(struct mlx5_ib_clock_info)
	MLX5ClockInfoSign           = 0  // offsetof(struct mlx5_ib_clock_info, sign)
	MLX5ClockInfoResv           = 4  // offsetof(struct mlx5_ib_clock_info, resv)
	MLX5ClockInfoNsec           = 8  // offsetof(struct mlx5_ib_clock_info, nsec)
	MLX5ClockInfoCycles         = 16 // offsetof(struct mlx5_ib_clock_info, cycles)
	MLX5ClockInfoFrac           = 24 // offsetof(struct mlx5_ib_clock_info, frac)
	MLX5ClockInfoMult           = 32 // offsetof(struct mlx5_ib_clock_info, mult)
	MLX5ClockInfoShift          = 36 // offsetof(struct mlx5_ib_clock_info, shift)
	MLX5ClockInfoMask           = 40 // offsetof(struct mlx5_ib_clock_info, mask)
	MLX5ClockInfoOverflowPeriod = 48 // offsetof(struct mlx5_ib_clock_info, overflow_period)
)

// enum: state and version of struct mlx5_ib_clock_info.
const (
	MLX5ClockInfoKernelUpdating = 1 // MLX5_IB_CLOCK_INFO_KERNEL_UPDATING
	MLX5ClockInfoV1             = 0 // MLX5_IB_CLOCK_INFO_V1
)
