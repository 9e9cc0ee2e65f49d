package abi

// rdma/mlx5_user_ioctl_cmds.h: objects, methods and attributes that the mlx5 driver adds to the ioctl interface.

// enum mlx5_ib_objects.
const (
	MLX5ObjectDEVX    = 0x1000 // MLX5_IB_OBJECT_DEVX
	MLX5ObjectDEVXObj = 0x1001 // MLX5_IB_OBJECT_DEVX_OBJ
	MLX5ObjectUAR     = 0x1008 // MLX5_IB_OBJECT_UAR
)

// enum mlx5_ib_device_methods.
const (
	MLX5MethodQueryPort = 0x1000 // MLX5_IB_METHOD_QUERY_PORT
)

// enum mlx5_ib_device_query_context_attrs.
const (
	MLX5AttrQueryContextRespUctx = 0x1000 // MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX
)

// enum mlx5_ib_query_port_attrs.
const (
	MLX5AttrQueryPortPortNum = 0x1000 // MLX5_IB_ATTR_QUERY_PORT_PORT_NUM
	MLX5AttrQueryPort        = 0x1001 // MLX5_IB_ATTR_QUERY_PORT
)

// enum mlx5_ib_pd_methods.
const (
	MLX5MethodPDQuery = 0x1000 // MLX5_IB_METHOD_PD_QUERY
)

// enum mlx5_ib_query_pd_attrs.
const (
	MLX5AttrQueryPDHandle  = 0x1000 // MLX5_IB_ATTR_QUERY_PD_HANDLE
	MLX5AttrQueryPDRespPDN = 0x1001 // MLX5_IB_ATTR_QUERY_PD_RESP_PDN
)

// enum mlx5_ib_devx_methods.
const (
	MLX5MethodDEVXOther = 0x1000 // MLX5_IB_METHOD_DEVX_OTHER
)

// enum mlx5_ib_devx_other_attrs.
const (
	MLX5AttrDEVXOtherCmdIn  = 0x1000 // MLX5_IB_ATTR_DEVX_OTHER_CMD_IN
	MLX5AttrDEVXOtherCmdOut = 0x1001 // MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT
)

// enum mlx5_ib_uar_obj_methods.
const (
	MLX5MethodUARObjAlloc   = 0x1000 // MLX5_IB_METHOD_UAR_OBJ_ALLOC
	MLX5MethodUARObjDestroy = 0x1001 // MLX5_IB_METHOD_UAR_OBJ_DESTROY
)

// enum mlx5_ib_uar_alloc_attrs.
const (
	MLX5AttrUARObjAllocHandle     = 0x1000 // MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE
	MLX5AttrUARObjAllocType       = 0x1001 // MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE
	MLX5AttrUARObjAllocMmapOffset = 0x1002 // MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET
	MLX5AttrUARObjAllocMmapLength = 0x1003 // MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH
	MLX5AttrUARObjAllocPageID     = 0x1004 // MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID
)

// enum mlx5_ib_uar_obj_destroy_attrs.
const (
	MLX5AttrUARObjDestroyHandle = 0x1000 // MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE
)

// enum mlx5_ib_devx_obj_methods.
const (
	MLX5MethodDEVXObjCreate  = 0x1000 // MLX5_IB_METHOD_DEVX_OBJ_CREATE
	MLX5MethodDEVXObjDestroy = 0x1001 // MLX5_IB_METHOD_DEVX_OBJ_DESTROY
	MLX5MethodDEVXObjModify  = 0x1002 // MLX5_IB_METHOD_DEVX_OBJ_MODIFY
)

// enum mlx5_ib_devx_obj_create_attrs.
const (
	MLX5AttrDEVXObjCreateHandle = 0x1000 // MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE
	MLX5AttrDEVXObjCreateCmdIn  = 0x1001 // MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN
	MLX5AttrDEVXObjCreateCmdOut = 0x1002 // MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT
)

// enum mlx5_ib_devx_obj_destroy_attrs.
const (
	MLX5AttrDEVXObjDestroyHandle = 0x1000 // MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE
)

// enum mlx5_ib_devx_obj_modify_attrs.
const (
	MLX5AttrDEVXObjModifyHandle = 0x1000 // MLX5_IB_ATTR_DEVX_OBJ_MODIFY_HANDLE
	MLX5AttrDEVXObjModifyCmdIn  = 0x1001 // MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN
	MLX5AttrDEVXObjModifyCmdOut = 0x1002 // MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_OUT
)

// enum mlx5_ib_dm_methods.
const (
	MLX5MethodDMMapOpAddr = 0x1000 // MLX5_IB_METHOD_DM_MAP_OP_ADDR
	MLX5MethodDMQuery     = 0x1001 // MLX5_IB_METHOD_DM_QUERY
)

// enum mlx5_ib_dm_map_op_addr_attrs.
const (
	MLX5AttrDMMapOpAddrReqHandle       = 0x1000 // MLX5_IB_ATTR_DM_MAP_OP_ADDR_REQ_HANDLE
	MLX5AttrDMMapOpAddrReqOp           = 0x1001 // MLX5_IB_ATTR_DM_MAP_OP_ADDR_REQ_OP
	MLX5AttrDMMapOpAddrRespStartOffset = 0x1002 // MLX5_IB_ATTR_DM_MAP_OP_ADDR_RESP_START_OFFSET
	MLX5AttrDMMapOpAddrRespPageIndex   = 0x1003 // MLX5_IB_ATTR_DM_MAP_OP_ADDR_RESP_PAGE_INDEX
)

// enum mlx5_ib_query_dm_attrs.
const (
	MLX5AttrQueryDMReqHandle       = 0x1000 // MLX5_IB_ATTR_QUERY_DM_REQ_HANDLE
	MLX5AttrQueryDMRespStartOffset = 0x1001 // MLX5_IB_ATTR_QUERY_DM_RESP_START_OFFSET
	MLX5AttrQueryDMRespPageIndex   = 0x1002 // MLX5_IB_ATTR_QUERY_DM_RESP_PAGE_INDEX
	MLX5AttrQueryDMRespLength      = 0x1003 // MLX5_IB_ATTR_QUERY_DM_RESP_LENGTH
)

// enum mlx5_ib_alloc_dm_attrs.
const (
	MLX5AttrAllocDMRespStartOffset = 0x1000 // MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET
	MLX5AttrAllocDMRespPageIndex   = 0x1001 // MLX5_IB_ATTR_ALLOC_DM_RESP_PAGE_INDEX
	MLX5AttrAllocDMReqType         = 0x1002 // MLX5_IB_ATTR_ALLOC_DM_REQ_TYPE
)
