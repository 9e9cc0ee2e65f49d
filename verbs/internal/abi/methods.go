package abi

// rdma/ib_user_ioctl_cmds.h: objects, methods and attributes of the ioctl interface.

// enum uverbs_default_objects.
const (
	ObjectDevice     = 0  // UVERBS_OBJECT_DEVICE
	ObjectPD         = 1  // UVERBS_OBJECT_PD
	ObjectCQ         = 3  // UVERBS_OBJECT_CQ
	ObjectQP         = 4  // UVERBS_OBJECT_QP
	ObjectSRQ        = 5  // UVERBS_OBJECT_SRQ
	ObjectAH         = 6  // UVERBS_OBJECT_AH
	ObjectXRCD       = 10 // UVERBS_OBJECT_XRCD
	ObjectMR         = 7  // UVERBS_OBJECT_MR
	ObjectMW         = 8  // UVERBS_OBJECT_MW
	ObjectDM         = 14 // UVERBS_OBJECT_DM
	ObjectAsyncEvent = 16 // UVERBS_OBJECT_ASYNC_EVENT
)

// Private data of the driver.
const (
	AttrUHWIn  = 0x1000 // UVERBS_ATTR_UHW_IN
	AttrUHWOut = 0x1001 // UVERBS_ATTR_UHW_OUT
)

// enum uverbs_methods_device.
const (
	MethodInvokeWrite   = 0 // UVERBS_METHOD_INVOKE_WRITE
	MethodQueryPort     = 2 // UVERBS_METHOD_QUERY_PORT
	MethodGetContext    = 3 // UVERBS_METHOD_GET_CONTEXT
	MethodQueryContext  = 4 // UVERBS_METHOD_QUERY_CONTEXT
	MethodQueryGIDTable = 5 // UVERBS_METHOD_QUERY_GID_TABLE
	MethodQueryGIDEntry = 6 // UVERBS_METHOD_QUERY_GID_ENTRY
)

// enum uverbs_attrs_invoke_write_cmd_attr_ids.
const (
	AttrCoreIn   = 0 // UVERBS_ATTR_CORE_IN
	AttrCoreOut  = 1 // UVERBS_ATTR_CORE_OUT
	AttrWriteCmd = 2 // UVERBS_ATTR_WRITE_CMD
)

// enum uverbs_attrs_query_port_cmd_attr_ids.
const (
	AttrQueryPortPortNum = 0 // UVERBS_ATTR_QUERY_PORT_PORT_NUM
	AttrQueryPortResp    = 1 // UVERBS_ATTR_QUERY_PORT_RESP
)

// enum uverbs_attrs_get_context_attr_ids.
const (
	AttrGetContextNumCompVectors = 0 // UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS
	AttrGetContextCoreSupport    = 1 // UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT
)

// enum uverbs_attrs_query_context_attr_ids.
const (
	AttrQueryContextNumCompVectors = 0 // UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS
	AttrQueryContextCoreSupport    = 1 // UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT
)

// enum uverbs_attrs_query_gid_table_cmd_attr_ids.
const (
	AttrQueryGIDTableEntrySize      = 0 // UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE
	AttrQueryGIDTableFlags          = 1 // UVERBS_ATTR_QUERY_GID_TABLE_FLAGS
	AttrQueryGIDTableRespEntries    = 2 // UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES
	AttrQueryGIDTableRespNumEntries = 3 // UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES
)

// enum uverbs_attrs_query_gid_entry_cmd_attr_ids.
const (
	AttrQueryGIDEntryPort      = 0 // UVERBS_ATTR_QUERY_GID_ENTRY_PORT
	AttrQueryGIDEntryGIDIndex  = 1 // UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX
	AttrQueryGIDEntryFlags     = 2 // UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS
	AttrQueryGIDEntryRespEntry = 3 // UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY
)

// enum uverbs_method_async_event.
const (
	MethodAsyncEventAlloc = 0 // UVERBS_METHOD_ASYNC_EVENT_ALLOC
)

// enum uverbs_attrs_async_event_create.
const (
	AttrAsyncEventAllocFDHandle = 0 // UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE
)

// enum uverbs_methods_pd.
const (
	MethodPDDestroy = 0 // UVERBS_METHOD_PD_DESTROY
)

// enum uverbs_attrs_pd_destroy_ids.
const (
	AttrDestroyPDHandle = 0 // UVERBS_ATTR_DESTROY_PD_HANDLE
)

// enum uverbs_methods_mr.
const (
	MethodDMMRReg     = 0 // UVERBS_METHOD_DM_MR_REG
	MethodMRDestroy   = 1 // UVERBS_METHOD_MR_DESTROY
	MethodAdviseMR    = 2 // UVERBS_METHOD_ADVISE_MR
	MethodQueryMR     = 3 // UVERBS_METHOD_QUERY_MR
	MethodRegDMABufMR = 4 // UVERBS_METHOD_REG_DMABUF_MR
)

// enum uverbs_attrs_reg_dmabuf_mr_cmd_attr_ids.
const (
	AttrRegDMABufMRHandle      = 0 // UVERBS_ATTR_REG_DMABUF_MR_HANDLE
	AttrRegDMABufMRPDHandle    = 1 // UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE
	AttrRegDMABufMROffset      = 2 // UVERBS_ATTR_REG_DMABUF_MR_OFFSET
	AttrRegDMABufMRLength      = 3 // UVERBS_ATTR_REG_DMABUF_MR_LENGTH
	AttrRegDMABufMRIOVA        = 4 // UVERBS_ATTR_REG_DMABUF_MR_IOVA
	AttrRegDMABufMRFD          = 5 // UVERBS_ATTR_REG_DMABUF_MR_FD
	AttrRegDMABufMRAccessFlags = 6 // UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS
	AttrRegDMABufMRRespLKey    = 7 // UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY
	AttrRegDMABufMRRespRKey    = 8 // UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY
)

// enum uverbs_attrs_mr_destroy_ids.
const (
	AttrDestroyMRHandle = 0 // UVERBS_ATTR_DESTROY_MR_HANDLE
)

// enum uverbs_attrs_advise_mr_cmd_attr_ids.
const (
	AttrAdviseMRPDHandle = 0 // UVERBS_ATTR_ADVISE_MR_PD_HANDLE
	AttrAdviseMRAdvice   = 1 // UVERBS_ATTR_ADVISE_MR_ADVICE
	AttrAdviseMRFlags    = 2 // UVERBS_ATTR_ADVISE_MR_FLAGS
	AttrAdviseMRSGEList  = 3 // UVERBS_ATTR_ADVISE_MR_SGE_LIST
)

// enum uverbs_attrs_query_mr_cmd_attr_ids.
const (
	AttrQueryMRHandle     = 0 // UVERBS_ATTR_QUERY_MR_HANDLE
	AttrQueryMRRespLKey   = 1 // UVERBS_ATTR_QUERY_MR_RESP_LKEY
	AttrQueryMRRespRKey   = 2 // UVERBS_ATTR_QUERY_MR_RESP_RKEY
	AttrQueryMRRespLength = 3 // UVERBS_ATTR_QUERY_MR_RESP_LENGTH
	AttrQueryMRRespIOVA   = 4 // UVERBS_ATTR_QUERY_MR_RESP_IOVA
)

// enum uverbs_methods_mw.
const (
	MethodMWDestroy = 0 // UVERBS_METHOD_MW_DESTROY
)

// enum uverbs_attrs_mw_destroy_ids.
const (
	AttrDestroyMWHandle = 0 // UVERBS_ATTR_DESTROY_MW_HANDLE
)

// enum uverbs_methods_ah.
const (
	MethodAHDestroy = 0 // UVERBS_METHOD_AH_DESTROY
)

// enum uverbs_attrs_ah_destroy_ids.
const (
	AttrDestroyAHHandle = 0 // UVERBS_ATTR_DESTROY_AH_HANDLE
)

// enum uverbs_methods_cq.
const (
	MethodCQCreate  = 0 // UVERBS_METHOD_CQ_CREATE
	MethodCQDestroy = 1 // UVERBS_METHOD_CQ_DESTROY
)

// enum uverbs_attrs_create_cq_cmd_attr_ids.
const (
	AttrCreateCQHandle      = 0 // UVERBS_ATTR_CREATE_CQ_HANDLE
	AttrCreateCQCQE         = 1 // UVERBS_ATTR_CREATE_CQ_CQE
	AttrCreateCQUserHandle  = 2 // UVERBS_ATTR_CREATE_CQ_USER_HANDLE
	AttrCreateCQCompChannel = 3 // UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL
	AttrCreateCQCompVector  = 4 // UVERBS_ATTR_CREATE_CQ_COMP_VECTOR
	AttrCreateCQFlags       = 5 // UVERBS_ATTR_CREATE_CQ_FLAGS
	AttrCreateCQRespCQE     = 6 // UVERBS_ATTR_CREATE_CQ_RESP_CQE
	AttrCreateCQEventFD     = 7 // UVERBS_ATTR_CREATE_CQ_EVENT_FD
)

// enum uverbs_attrs_destroy_cq_cmd_attr_ids.
const (
	AttrDestroyCQHandle = 0 // UVERBS_ATTR_DESTROY_CQ_HANDLE
	AttrDestroyCQResp   = 1 // UVERBS_ATTR_DESTROY_CQ_RESP
)

// enum uverbs_methods_qp.
const (
	MethodQPCreate  = 0 // UVERBS_METHOD_QP_CREATE
	MethodQPDestroy = 1 // UVERBS_METHOD_QP_DESTROY
)

// enum uverbs_attrs_create_qp_cmd_attr_ids.
const (
	AttrCreateQPHandle         = 0  // UVERBS_ATTR_CREATE_QP_HANDLE
	AttrCreateQPXRCDHandle     = 1  // UVERBS_ATTR_CREATE_QP_XRCD_HANDLE
	AttrCreateQPPDHandle       = 2  // UVERBS_ATTR_CREATE_QP_PD_HANDLE
	AttrCreateQPSRQHandle      = 3  // UVERBS_ATTR_CREATE_QP_SRQ_HANDLE
	AttrCreateQPSendCQHandle   = 4  // UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE
	AttrCreateQPRecvCQHandle   = 5  // UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE
	AttrCreateQPIndTableHandle = 6  // UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE
	AttrCreateQPUserHandle     = 7  // UVERBS_ATTR_CREATE_QP_USER_HANDLE
	AttrCreateQPCap            = 8  // UVERBS_ATTR_CREATE_QP_CAP
	AttrCreateQPType           = 9  // UVERBS_ATTR_CREATE_QP_TYPE
	AttrCreateQPFlags          = 10 // UVERBS_ATTR_CREATE_QP_FLAGS
	AttrCreateQPSourceQPN      = 11 // UVERBS_ATTR_CREATE_QP_SOURCE_QPN
	AttrCreateQPEventFD        = 12 // UVERBS_ATTR_CREATE_QP_EVENT_FD
	AttrCreateQPRespCap        = 13 // UVERBS_ATTR_CREATE_QP_RESP_CAP
	AttrCreateQPRespQPNum      = 14 // UVERBS_ATTR_CREATE_QP_RESP_QP_NUM
)

// enum uverbs_attrs_destroy_qp_cmd_attr_ids.
const (
	AttrDestroyQPHandle = 0 // UVERBS_ATTR_DESTROY_QP_HANDLE
	AttrDestroyQPResp   = 1 // UVERBS_ATTR_DESTROY_QP_RESP
)

// enum uverbs_methods_srq.
const (
	MethodSRQCreate  = 0 // UVERBS_METHOD_SRQ_CREATE
	MethodSRQDestroy = 1 // UVERBS_METHOD_SRQ_DESTROY
)

// enum uverbs_methods_xrcd.
const (
	MethodXRCDDestroy = 0 // UVERBS_METHOD_XRCD_DESTROY
)

// enum uverbs_attrs_xrcd_destroy_ids.
const (
	AttrDestroyXRCDHandle = 0 // UVERBS_ATTR_DESTROY_XRCD_HANDLE
)

// enum uverbs_attrs_create_srq_cmd_attr_ids.
const (
	AttrCreateSRQHandle     = 0  // UVERBS_ATTR_CREATE_SRQ_HANDLE
	AttrCreateSRQPDHandle   = 1  // UVERBS_ATTR_CREATE_SRQ_PD_HANDLE
	AttrCreateSRQXRCDHandle = 2  // UVERBS_ATTR_CREATE_SRQ_XRCD_HANDLE
	AttrCreateSRQCQHandle   = 3  // UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE
	AttrCreateSRQUserHandle = 4  // UVERBS_ATTR_CREATE_SRQ_USER_HANDLE
	AttrCreateSRQMaxWR      = 5  // UVERBS_ATTR_CREATE_SRQ_MAX_WR
	AttrCreateSRQMaxSGE     = 6  // UVERBS_ATTR_CREATE_SRQ_MAX_SGE
	AttrCreateSRQLimit      = 7  // UVERBS_ATTR_CREATE_SRQ_LIMIT
	AttrCreateSRQMaxNumTags = 8  // UVERBS_ATTR_CREATE_SRQ_MAX_NUM_TAGS
	AttrCreateSRQType       = 9  // UVERBS_ATTR_CREATE_SRQ_TYPE
	AttrCreateSRQEventFD    = 10 // UVERBS_ATTR_CREATE_SRQ_EVENT_FD
	AttrCreateSRQRespMaxWR  = 11 // UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR
	AttrCreateSRQRespMaxSGE = 12 // UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE
	AttrCreateSRQRespSRQNum = 13 // UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM
)

// enum uverbs_attrs_destroy_srq_cmd_attr_ids.
const (
	AttrDestroySRQHandle = 0 // UVERBS_ATTR_DESTROY_SRQ_HANDLE
	AttrDestroySRQResp   = 1 // UVERBS_ATTR_DESTROY_SRQ_RESP
)

// enum uverbs_methods_dm.
const (
	MethodDMAlloc = 0 // UVERBS_METHOD_DM_ALLOC
	MethodDMFree  = 1 // UVERBS_METHOD_DM_FREE
)

// enum uverbs_attrs_alloc_dm_cmd_attr_ids.
const (
	AttrAllocDMHandle    = 0 // UVERBS_ATTR_ALLOC_DM_HANDLE
	AttrAllocDMLength    = 1 // UVERBS_ATTR_ALLOC_DM_LENGTH
	AttrAllocDMAlignment = 2 // UVERBS_ATTR_ALLOC_DM_ALIGNMENT
)

// enum uverbs_attrs_free_dm_cmd_attr_ids.
const (
	AttrFreeDMHandle = 0 // UVERBS_ATTR_FREE_DM_HANDLE
)

// enum uverbs_attrs_reg_dm_mr_cmd_attr_ids.
const (
	AttrRegDMMRHandle      = 0 // UVERBS_ATTR_REG_DM_MR_HANDLE
	AttrRegDMMROffset      = 1 // UVERBS_ATTR_REG_DM_MR_OFFSET
	AttrRegDMMRLength      = 2 // UVERBS_ATTR_REG_DM_MR_LENGTH
	AttrRegDMMRPDHandle    = 3 // UVERBS_ATTR_REG_DM_MR_PD_HANDLE
	AttrRegDMMRAccessFlags = 4 // UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS
	AttrRegDMMRDMHandle    = 5 // UVERBS_ATTR_REG_DM_MR_DM_HANDLE
	AttrRegDMMRRespLKey    = 6 // UVERBS_ATTR_REG_DM_MR_RESP_LKEY
	AttrRegDMMRRespRKey    = 7 // UVERBS_ATTR_REG_DM_MR_RESP_RKEY
)
