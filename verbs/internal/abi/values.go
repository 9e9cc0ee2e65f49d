package abi

// rdma/ib_user_ioctl_verbs.h: flags, types and structures of the ioctl interface.

// enum rdma_driver_id.
const (
	DriverMLX5 = 1 // RDMA_DRIVER_MLX5
)

// enum ib_uverbs_core_support.
const (
	CoreSupportOptionalMRAccess = 1 << 0 // IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS
)

// enum ib_uverbs_access_flags. The device knows bits 0 to 5 by the same numbers.
const (
	AccessLocalWrite    = 1 << 0     // IB_UVERBS_ACCESS_LOCAL_WRITE
	AccessRemoteWrite   = 1 << 1     // IB_UVERBS_ACCESS_REMOTE_WRITE
	AccessRemoteRead    = 1 << 2     // IB_UVERBS_ACCESS_REMOTE_READ
	AccessRemoteAtomic  = 1 << 3     // IB_UVERBS_ACCESS_REMOTE_ATOMIC
	AccessMWBind        = 1 << 4     // IB_UVERBS_ACCESS_MW_BIND
	AccessZeroBased     = 1 << 5     // IB_UVERBS_ACCESS_ZERO_BASED
	AccessOnDemand      = 1 << 6     // IB_UVERBS_ACCESS_ON_DEMAND
	AccessHugeTLB       = 1 << 7     // IB_UVERBS_ACCESS_HUGETLB
	AccessOptionalRange = 0x3ff00000 // IB_UVERBS_ACCESS_OPTIONAL_RANGE
)

// enum ib_uverbs_qp_type.
const (
	QPTRC     = 2   // IB_UVERBS_QPT_RC
	QPTUC     = 3   // IB_UVERBS_QPT_UC
	QPTUD     = 4   // IB_UVERBS_QPT_UD
	QPTXRCIni = 9   // IB_UVERBS_QPT_XRC_INI
	QPTXRCTgt = 10  // IB_UVERBS_QPT_XRC_TGT
	QPTDriver = 255 // IB_UVERBS_QPT_DRIVER
)

// enum ib_uverbs_qp_create_flags.
const (
	QPCreateBlockMulticastLoopback = 1 << 1  // IB_UVERBS_QP_CREATE_BLOCK_MULTICAST_LOOPBACK
	QPCreateSQSigAll               = 1 << 12 // IB_UVERBS_QP_CREATE_SQ_SIG_ALL
)

// enum ib_uverbs_srq_type.
const (
	SRQTBasic = 0 // IB_UVERBS_SRQT_BASIC
	SRQTXRC   = 1 // IB_UVERBS_SRQT_XRC
)

// enum ib_uverbs_query_port_cap_flags.
const (
	PCFCMSup       = 1 << 16 // IB_UVERBS_PCF_CM_SUP
	PCFIPBasedGIDs = 1 << 26 // IB_UVERBS_PCF_IP_BASED_GIDS
)

// enum ib_uverbs_gid_type.
const (
	GIDTypeIB     = 0 // IB_UVERBS_GID_TYPE_IB
	GIDTypeRoCEV1 = 1 // IB_UVERBS_GID_TYPE_ROCE_V1
	GIDTypeRoCEV2 = 2 // IB_UVERBS_GID_TYPE_ROCE_V2
)

// struct ib_uverbs_query_port_resp_ex.
const (
	QueryPortRespExSize = 48 // sizeof(struct ib_uverbs_query_port_resp_ex)
)

// struct ib_uverbs_qp_cap.
const (
	QPCapSize          = 20 // sizeof(struct ib_uverbs_qp_cap)
	QPCapMaxSendWR     = 0  // offsetof(struct ib_uverbs_qp_cap, max_send_wr)
	QPCapMaxRecvWR     = 4  // offsetof(struct ib_uverbs_qp_cap, max_recv_wr)
	QPCapMaxSendSGE    = 8  // offsetof(struct ib_uverbs_qp_cap, max_send_sge)
	QPCapMaxRecvSGE    = 12 // offsetof(struct ib_uverbs_qp_cap, max_recv_sge)
	QPCapMaxInlineData = 16 // offsetof(struct ib_uverbs_qp_cap, max_inline_data)
)

// struct ib_uverbs_gid_entry.
const (
	GIDEntrySize          = 32 // sizeof(struct ib_uverbs_gid_entry)
	GIDEntryGID           = 0  // offsetof(struct ib_uverbs_gid_entry, gid)
	GIDEntryGIDIndex      = 16 // offsetof(struct ib_uverbs_gid_entry, gid_index)
	GIDEntryPortNum       = 20 // offsetof(struct ib_uverbs_gid_entry, port_num)
	GIDEntryGIDType       = 24 // offsetof(struct ib_uverbs_gid_entry, gid_type)
	GIDEntryNetdevIfindex = 28 // offsetof(struct ib_uverbs_gid_entry, netdev_ifindex)
)

// enum ib_uverbs_advise_mr_advice and enum ib_uverbs_advise_mr_flag.
const (
	AdvicePrefetch        = 0      // IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH
	AdvicePrefetchWrite   = 1      // IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE
	AdvicePrefetchNoFault = 2      // IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT
	AdviceFlush           = 1 << 0 // IB_UVERBS_ADVISE_MR_FLAG_FLUSH
)

// struct ib_uverbs_sge.
const (
	SGESize   = 16 // sizeof(struct ib_uverbs_sge)
	SGEAddr   = 0  // offsetof(struct ib_uverbs_sge, addr)
	SGELength = 8  // offsetof(struct ib_uverbs_sge, length)
	SGELKey   = 12 // offsetof(struct ib_uverbs_sge, lkey)
)
