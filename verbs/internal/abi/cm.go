package abi

// rdma/rdma_user_cm.h: what programs write to /dev/infiniband/rdma_cm.

// Commands.
const (
	CMCmdCreateID     = 0  // RDMA_USER_CM_CMD_CREATE_ID
	CMCmdDestroyID    = 1  // RDMA_USER_CM_CMD_DESTROY_ID
	CMCmdBindIP       = 2  // RDMA_USER_CM_CMD_BIND_IP
	CMCmdResolveIP    = 3  // RDMA_USER_CM_CMD_RESOLVE_IP
	CMCmdResolveRoute = 4  // RDMA_USER_CM_CMD_RESOLVE_ROUTE
	CMCmdQueryRoute   = 5  // RDMA_USER_CM_CMD_QUERY_ROUTE
	CMCmdConnect      = 6  // RDMA_USER_CM_CMD_CONNECT
	CMCmdListen       = 7  // RDMA_USER_CM_CMD_LISTEN
	CMCmdAccept       = 8  // RDMA_USER_CM_CMD_ACCEPT
	CMCmdReject       = 9  // RDMA_USER_CM_CMD_REJECT
	CMCmdDisconnect   = 10 // RDMA_USER_CM_CMD_DISCONNECT
	CMCmdInitQPAttr   = 11 // RDMA_USER_CM_CMD_INIT_QP_ATTR
	CMCmdGetEvent     = 12 // RDMA_USER_CM_CMD_GET_EVENT
	CMCmdGetOption    = 13 // RDMA_USER_CM_CMD_GET_OPTION
	CMCmdSetOption    = 14 // RDMA_USER_CM_CMD_SET_OPTION
	CMCmdNotify       = 15 // RDMA_USER_CM_CMD_NOTIFY
	CMCmdJoinIPMcast  = 16 // RDMA_USER_CM_CMD_JOIN_IP_MCAST
	CMCmdLeaveMcast   = 17 // RDMA_USER_CM_CMD_LEAVE_MCAST
	CMCmdMigrateID    = 18 // RDMA_USER_CM_CMD_MIGRATE_ID
	CMCmdQuery        = 19 // RDMA_USER_CM_CMD_QUERY
	CMCmdBind         = 20 // RDMA_USER_CM_CMD_BIND
	CMCmdResolveAddr  = 21 // RDMA_USER_CM_CMD_RESOLVE_ADDR
	CMCmdJoinMcast    = 22 // RDMA_USER_CM_CMD_JOIN_MCAST
)

// enum rdma_ucm_port_space.
const (
	CMPSIPOIB = 2   // RDMA_PS_IPOIB
	CMPSIB    = 319 // RDMA_PS_IB
	CMPSTCP   = 262 // RDMA_PS_TCP
	CMPSUDP   = 273 // RDMA_PS_UDP
)

// Options.
const (
	CMOptionLevelID    = 0 // RDMA_OPTION_ID
	CMOptionLevelIB    = 1 // RDMA_OPTION_IB
	CMOptionTOS        = 0 // RDMA_OPTION_ID_TOS
	CMOptionReuseAddr  = 1 // RDMA_OPTION_ID_REUSEADDR
	CMOptionAFOnly     = 2 // RDMA_OPTION_ID_AFONLY
	CMOptionAckTimeout = 3 // RDMA_OPTION_ID_ACK_TIMEOUT
	CMOptionIBPath     = 1 // RDMA_OPTION_IB_PATH
)

// Parts of an answer to QUERY, flags of JOIN_MCAST, and the most private data in a command.
const (
	CMQueryAddr        = 0   // RDMA_USER_CM_QUERY_ADDR
	CMQueryPath        = 1   // RDMA_USER_CM_QUERY_PATH
	CMQueryGID         = 2   // RDMA_USER_CM_QUERY_GID
	CMJoinFlagReserved = 2   // RDMA_MC_JOIN_FLAG_RESERVED
	CMMaxPrivateData   = 256 // RDMA_MAX_PRIVATE_DATA
)

// struct rdma_ucm_cmd_hdr.
const (
	CMHdrSize = 8 // sizeof(struct rdma_ucm_cmd_hdr)
	CMHdrCmd  = 0 // offsetof(struct rdma_ucm_cmd_hdr, cmd)
	CMHdrIn   = 4 // offsetof(struct rdma_ucm_cmd_hdr, in)
	CMHdrOut  = 6 // offsetof(struct rdma_ucm_cmd_hdr, out)
)

// struct rdma_ucm_create_id.
const (
	CMCreateIDSize     = 24 // sizeof(struct rdma_ucm_create_id)
	CMCreateIDUID      = 0  // offsetof(struct rdma_ucm_create_id, uid)
	CMCreateIDResponse = 8  // offsetof(struct rdma_ucm_create_id, response)
	CMCreateIDPS       = 16 // offsetof(struct rdma_ucm_create_id, ps)
	CMCreateIDQPType   = 18 // offsetof(struct rdma_ucm_create_id, qp_type)
)

// struct rdma_ucm_create_id_resp.
const (
	CMCreateIDRespSize = 4 // sizeof(struct rdma_ucm_create_id_resp)
	CMCreateIDRespID   = 0 // offsetof(struct rdma_ucm_create_id_resp, id)
)

// struct rdma_ucm_destroy_id.
const (
	CMDestroyIDSize     = 16 // sizeof(struct rdma_ucm_destroy_id)
	CMDestroyIDResponse = 0  // offsetof(struct rdma_ucm_destroy_id, response)
	CMDestroyIDID       = 8  // offsetof(struct rdma_ucm_destroy_id, id)
)

// struct rdma_ucm_destroy_id_resp.
const (
	CMDestroyIDRespSize           = 4 // sizeof(struct rdma_ucm_destroy_id_resp)
	CMDestroyIDRespEventsReported = 0 // offsetof(struct rdma_ucm_destroy_id_resp, events_reported)
)

// struct rdma_ucm_bind_ip.
const (
	CMBindIPSize = 40 // sizeof(struct rdma_ucm_bind_ip)
	CMBindIPAddr = 8  // offsetof(struct rdma_ucm_bind_ip, addr)
	CMBindIPID   = 36 // offsetof(struct rdma_ucm_bind_ip, id)
)

// struct rdma_ucm_bind.
const (
	CMBindSize     = 136 // sizeof(struct rdma_ucm_bind)
	CMBindID       = 0   // offsetof(struct rdma_ucm_bind, id)
	CMBindAddrSize = 4   // offsetof(struct rdma_ucm_bind, addr_size)
	CMBindReserved = 6   // offsetof(struct rdma_ucm_bind, reserved)
	CMBindAddr     = 8   // offsetof(struct rdma_ucm_bind, addr)
)

// struct rdma_ucm_resolve_ip.
const (
	CMResolveIPSize    = 64 // sizeof(struct rdma_ucm_resolve_ip)
	CMResolveIPSrcAddr = 0  // offsetof(struct rdma_ucm_resolve_ip, src_addr)
	CMResolveIPDstAddr = 28 // offsetof(struct rdma_ucm_resolve_ip, dst_addr)
	CMResolveIPID      = 56 // offsetof(struct rdma_ucm_resolve_ip, id)
)

// struct rdma_ucm_resolve_addr.
const (
	CMResolveAddrSize     = 272 // sizeof(struct rdma_ucm_resolve_addr)
	CMResolveAddrID       = 0   // offsetof(struct rdma_ucm_resolve_addr, id)
	CMResolveAddrSrcSize  = 8   // offsetof(struct rdma_ucm_resolve_addr, src_size)
	CMResolveAddrDstSize  = 10  // offsetof(struct rdma_ucm_resolve_addr, dst_size)
	CMResolveAddrReserved = 12  // offsetof(struct rdma_ucm_resolve_addr, reserved)
	CMResolveAddrSrcAddr  = 16  // offsetof(struct rdma_ucm_resolve_addr, src_addr)
	CMResolveAddrDstAddr  = 144 // offsetof(struct rdma_ucm_resolve_addr, dst_addr)
)

// struct rdma_ucm_resolve_route.
const (
	CMResolveRouteSize = 8 // sizeof(struct rdma_ucm_resolve_route)
	CMResolveRouteID   = 0 // offsetof(struct rdma_ucm_resolve_route, id)
)

// struct rdma_ucm_query.
const (
	CMQuerySize     = 16 // sizeof(struct rdma_ucm_query)
	CMQueryResponse = 0  // offsetof(struct rdma_ucm_query, response)
	CMQueryID       = 8  // offsetof(struct rdma_ucm_query, id)
	CMQueryOption   = 12 // offsetof(struct rdma_ucm_query, option)
)

// struct rdma_ucm_query_route_resp.
const (
	CMQueryRouteRespSize       = 208 // sizeof(struct rdma_ucm_query_route_resp)
	CMQueryRouteRespNodeGUID   = 0   // offsetof(struct rdma_ucm_query_route_resp, node_guid)
	CMQueryRouteRespIBRoute    = 8   // offsetof(struct rdma_ucm_query_route_resp, ib_route)
	CMQueryRouteRespSrcAddr    = 136 // offsetof(struct rdma_ucm_query_route_resp, src_addr)
	CMQueryRouteRespDstAddr    = 164 // offsetof(struct rdma_ucm_query_route_resp, dst_addr)
	CMQueryRouteRespNumPaths   = 192 // offsetof(struct rdma_ucm_query_route_resp, num_paths)
	CMQueryRouteRespPortNum    = 196 // offsetof(struct rdma_ucm_query_route_resp, port_num)
	CMQueryRouteRespIbdevIndex = 200 // offsetof(struct rdma_ucm_query_route_resp, ibdev_index)
)

// struct rdma_ucm_query_addr_resp.
const (
	CMQueryAddrRespSize       = 280 // sizeof(struct rdma_ucm_query_addr_resp)
	CMQueryAddrRespNodeGUID   = 0   // offsetof(struct rdma_ucm_query_addr_resp, node_guid)
	CMQueryAddrRespPortNum    = 8   // offsetof(struct rdma_ucm_query_addr_resp, port_num)
	CMQueryAddrRespPKey       = 10  // offsetof(struct rdma_ucm_query_addr_resp, pkey)
	CMQueryAddrRespSrcSize    = 12  // offsetof(struct rdma_ucm_query_addr_resp, src_size)
	CMQueryAddrRespDstSize    = 14  // offsetof(struct rdma_ucm_query_addr_resp, dst_size)
	CMQueryAddrRespSrcAddr    = 16  // offsetof(struct rdma_ucm_query_addr_resp, src_addr)
	CMQueryAddrRespDstAddr    = 144 // offsetof(struct rdma_ucm_query_addr_resp, dst_addr)
	CMQueryAddrRespIbdevIndex = 272 // offsetof(struct rdma_ucm_query_addr_resp, ibdev_index)
)

// struct rdma_ucm_query_path_resp.
const (
	CMQueryPathRespSize     = 8 // sizeof(struct rdma_ucm_query_path_resp)
	CMQueryPathRespNumPaths = 0 // offsetof(struct rdma_ucm_query_path_resp, num_paths)
)

// struct rdma_ucm_conn_param.
const (
	CMConnParamSize               = 272 // sizeof(struct rdma_ucm_conn_param)
	CMConnParamQPNum              = 0   // offsetof(struct rdma_ucm_conn_param, qp_num)
	CMConnParamQKey               = 4   // offsetof(struct rdma_ucm_conn_param, qkey)
	CMConnParamPrivateData        = 8   // offsetof(struct rdma_ucm_conn_param, private_data)
	CMConnParamPrivateDataLen     = 264 // offsetof(struct rdma_ucm_conn_param, private_data_len)
	CMConnParamSRQ                = 265 // offsetof(struct rdma_ucm_conn_param, srq)
	CMConnParamResponderResources = 266 // offsetof(struct rdma_ucm_conn_param, responder_resources)
	CMConnParamInitiatorDepth     = 267 // offsetof(struct rdma_ucm_conn_param, initiator_depth)
	CMConnParamFlowControl        = 268 // offsetof(struct rdma_ucm_conn_param, flow_control)
	CMConnParamRetryCount         = 269 // offsetof(struct rdma_ucm_conn_param, retry_count)
	CMConnParamRNRRetryCount      = 270 // offsetof(struct rdma_ucm_conn_param, rnr_retry_count)
	CMConnParamValid              = 271 // offsetof(struct rdma_ucm_conn_param, valid)
)

// struct rdma_ucm_ud_param.
const (
	CMUDParamSize           = 304 // sizeof(struct rdma_ucm_ud_param)
	CMUDParamQPNum          = 0   // offsetof(struct rdma_ucm_ud_param, qp_num)
	CMUDParamQKey           = 4   // offsetof(struct rdma_ucm_ud_param, qkey)
	CMUDParamAHAttr         = 8   // offsetof(struct rdma_ucm_ud_param, ah_attr)
	CMUDParamPrivateData    = 40  // offsetof(struct rdma_ucm_ud_param, private_data)
	CMUDParamPrivateDataLen = 296 // offsetof(struct rdma_ucm_ud_param, private_data_len)
)

// struct rdma_ucm_ece.
const (
	CMECESize     = 8 // sizeof(struct rdma_ucm_ece)
	CMECEVendorID = 0 // offsetof(struct rdma_ucm_ece, vendor_id)
	CMECEAttrMod  = 4 // offsetof(struct rdma_ucm_ece, attr_mod)
)

// struct rdma_ucm_connect.
const (
	CMConnectSize      = 288 // sizeof(struct rdma_ucm_connect)
	CMConnectConnParam = 0   // offsetof(struct rdma_ucm_connect, conn_param)
	CMConnectID        = 272 // offsetof(struct rdma_ucm_connect, id)
	CMConnectECE       = 280 // offsetof(struct rdma_ucm_connect, ece)
)

// struct rdma_ucm_listen.
const (
	CMListenSize    = 8 // sizeof(struct rdma_ucm_listen)
	CMListenID      = 0 // offsetof(struct rdma_ucm_listen, id)
	CMListenBacklog = 4 // offsetof(struct rdma_ucm_listen, backlog)
)

// struct rdma_ucm_accept.
const (
	CMAcceptSize      = 296 // sizeof(struct rdma_ucm_accept)
	CMAcceptUID       = 0   // offsetof(struct rdma_ucm_accept, uid)
	CMAcceptConnParam = 8   // offsetof(struct rdma_ucm_accept, conn_param)
	CMAcceptID        = 280 // offsetof(struct rdma_ucm_accept, id)
	CMAcceptECE       = 288 // offsetof(struct rdma_ucm_accept, ece)
)

// struct rdma_ucm_reject.
const (
	CMRejectSize           = 264 // sizeof(struct rdma_ucm_reject)
	CMRejectID             = 0   // offsetof(struct rdma_ucm_reject, id)
	CMRejectPrivateDataLen = 4   // offsetof(struct rdma_ucm_reject, private_data_len)
	CMRejectReason         = 5   // offsetof(struct rdma_ucm_reject, reason)
	CMRejectPrivateData    = 8   // offsetof(struct rdma_ucm_reject, private_data)
)

// struct rdma_ucm_disconnect.
const (
	CMDisconnectSize = 4 // sizeof(struct rdma_ucm_disconnect)
	CMDisconnectID   = 0 // offsetof(struct rdma_ucm_disconnect, id)
)

// struct rdma_ucm_init_qp_attr.
const (
	CMInitQPAttrSize     = 16 // sizeof(struct rdma_ucm_init_qp_attr)
	CMInitQPAttrResponse = 0  // offsetof(struct rdma_ucm_init_qp_attr, response)
	CMInitQPAttrID       = 8  // offsetof(struct rdma_ucm_init_qp_attr, id)
	CMInitQPAttrQPState  = 12 // offsetof(struct rdma_ucm_init_qp_attr, qp_state)
)

// struct rdma_ucm_notify.
const (
	CMNotifySize  = 8 // sizeof(struct rdma_ucm_notify)
	CMNotifyID    = 0 // offsetof(struct rdma_ucm_notify, id)
	CMNotifyEvent = 4 // offsetof(struct rdma_ucm_notify, event)
)

// struct rdma_ucm_join_ip_mcast.
const (
	CMJoinIPMcastSize     = 48 // sizeof(struct rdma_ucm_join_ip_mcast)
	CMJoinIPMcastResponse = 0  // offsetof(struct rdma_ucm_join_ip_mcast, response)
	CMJoinIPMcastUID      = 8  // offsetof(struct rdma_ucm_join_ip_mcast, uid)
	CMJoinIPMcastAddr     = 16 // offsetof(struct rdma_ucm_join_ip_mcast, addr)
	CMJoinIPMcastID       = 44 // offsetof(struct rdma_ucm_join_ip_mcast, id)
)

// struct rdma_ucm_join_mcast.
const (
	CMJoinMcastSize      = 152 // sizeof(struct rdma_ucm_join_mcast)
	CMJoinMcastResponse  = 0   // offsetof(struct rdma_ucm_join_mcast, response)
	CMJoinMcastUID       = 8   // offsetof(struct rdma_ucm_join_mcast, uid)
	CMJoinMcastID        = 16  // offsetof(struct rdma_ucm_join_mcast, id)
	CMJoinMcastAddrSize  = 20  // offsetof(struct rdma_ucm_join_mcast, addr_size)
	CMJoinMcastJoinFlags = 22  // offsetof(struct rdma_ucm_join_mcast, join_flags)
	CMJoinMcastAddr      = 24  // offsetof(struct rdma_ucm_join_mcast, addr)
)

// struct rdma_ucm_get_event.
const (
	CMGetEventSize     = 8 // sizeof(struct rdma_ucm_get_event)
	CMGetEventResponse = 0 // offsetof(struct rdma_ucm_get_event, response)
)

// struct rdma_ucm_event_resp.
const (
	CMEventRespSize   = 336 // sizeof(struct rdma_ucm_event_resp)
	CMEventRespUID    = 0   // offsetof(struct rdma_ucm_event_resp, uid)
	CMEventRespID     = 8   // offsetof(struct rdma_ucm_event_resp, id)
	CMEventRespEvent  = 12  // offsetof(struct rdma_ucm_event_resp, event)
	CMEventRespStatus = 16  // offsetof(struct rdma_ucm_event_resp, status)
	CMEventRespParam  = 20  // offsetof(struct rdma_ucm_event_resp, param)
	CMEventRespECE    = 328 // offsetof(struct rdma_ucm_event_resp, ece)
)

// struct rdma_ucm_set_option.
const (
	CMSetOptionSize    = 24 // sizeof(struct rdma_ucm_set_option)
	CMSetOptionOptval  = 0  // offsetof(struct rdma_ucm_set_option, optval)
	CMSetOptionID      = 8  // offsetof(struct rdma_ucm_set_option, id)
	CMSetOptionLevel   = 12 // offsetof(struct rdma_ucm_set_option, level)
	CMSetOptionOptname = 16 // offsetof(struct rdma_ucm_set_option, optname)
	CMSetOptionOptlen  = 20 // offsetof(struct rdma_ucm_set_option, optlen)
)

// struct rdma_ucm_migrate_id.
const (
	CMMigrateIDSize     = 16 // sizeof(struct rdma_ucm_migrate_id)
	CMMigrateIDResponse = 0  // offsetof(struct rdma_ucm_migrate_id, response)
	CMMigrateIDID       = 8  // offsetof(struct rdma_ucm_migrate_id, id)
	CMMigrateIDFD       = 12 // offsetof(struct rdma_ucm_migrate_id, fd)
)

// struct rdma_ucm_migrate_resp.
const (
	CMMigrateRespSize           = 4 // sizeof(struct rdma_ucm_migrate_resp)
	CMMigrateRespEventsReported = 0 // offsetof(struct rdma_ucm_migrate_resp, events_reported)
)
