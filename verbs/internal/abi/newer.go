package abi

// Numbers of methods that Linux has got since Debian 12 (include/uapi/rdma of Linux 7.3). The headers from
// which the other files are made do not have them.

// enum uverbs_methods_device and enum uverbs_methods_mr.
const (
	MethodQueryPortSpeed = 7 // UVERBS_METHOD_QUERY_PORT_SPEED
	MethodRegMR          = 5 // UVERBS_METHOD_REG_MR
)

// enum uverbs_attrs_query_port_speed_cmd_attr_ids.
const (
	AttrQueryPortSpeedPortNum = 0 // UVERBS_ATTR_QUERY_PORT_SPEED_PORT_NUM
	AttrQueryPortSpeedResp    = 1 // UVERBS_ATTR_QUERY_PORT_SPEED_RESP
)

// enum uverbs_attrs_reg_mr_cmd_attr_ids.
const (
	AttrRegMRHandle      = 0  // UVERBS_ATTR_REG_MR_HANDLE
	AttrRegMRPDHandle    = 1  // UVERBS_ATTR_REG_MR_PD_HANDLE
	AttrRegMRDMAHandle   = 2  // UVERBS_ATTR_REG_MR_DMA_HANDLE
	AttrRegMRIOVA        = 3  // UVERBS_ATTR_REG_MR_IOVA
	AttrRegMRAddr        = 4  // UVERBS_ATTR_REG_MR_ADDR
	AttrRegMRLength      = 5  // UVERBS_ATTR_REG_MR_LENGTH
	AttrRegMRAccessFlags = 6  // UVERBS_ATTR_REG_MR_ACCESS_FLAGS
	AttrRegMRFD          = 7  // UVERBS_ATTR_REG_MR_FD
	AttrRegMRFDOffset    = 8  // UVERBS_ATTR_REG_MR_FD_OFFSET
	AttrRegMRRespLKey    = 9  // UVERBS_ATTR_REG_MR_RESP_LKEY
	AttrRegMRRespRKey    = 10 // UVERBS_ATTR_REG_MR_RESP_RKEY
)

// enum ib_uverbs_access_flags.
const (
	AccessFlushGlobal     = 1 << 8 // IB_UVERBS_ACCESS_FLUSH_GLOBAL
	AccessFlushPersistent = 1 << 9 // IB_UVERBS_ACCESS_FLUSH_PERSISTENT
)
