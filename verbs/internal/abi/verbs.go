package abi

// infiniband/verbs.h: numbers that the kernel and libibverbs share, but that only the header of libibverbs names.

// enum ibv_event_type.
const (
	EventCQErr            = 0  // IBV_EVENT_CQ_ERR
	EventQPReqErr         = 2  // IBV_EVENT_QP_REQ_ERR
	EventQPAccessErr      = 3  // IBV_EVENT_QP_ACCESS_ERR
	EventCommEst          = 4  // IBV_EVENT_COMM_EST
	EventSQDrained        = 5  // IBV_EVENT_SQ_DRAINED
	EventDeviceFatal      = 8  // IBV_EVENT_DEVICE_FATAL
	EventSRQLimitReached  = 15 // IBV_EVENT_SRQ_LIMIT_REACHED
	EventQPLastWQEReached = 16 // IBV_EVENT_QP_LAST_WQE_REACHED
)

// enum ibv_qp_state.
const (
	QPSReset = 0 // IBV_QPS_RESET
	QPSInit  = 1 // IBV_QPS_INIT
	QPSRTR   = 2 // IBV_QPS_RTR
	QPSRTS   = 3 // IBV_QPS_RTS
	QPSSQD   = 4 // IBV_QPS_SQD
	QPSSQE   = 5 // IBV_QPS_SQE
	QPSErr   = 6 // IBV_QPS_ERR
)

// enum ibv_qp_attr_mask: the bits that the device does not know. It knows the others by the same numbers.
const (
	QPEnSQDAsyncNotify = 1 << 2  // IBV_QP_EN_SQD_ASYNC_NOTIFY
	QPAltPath          = 1 << 14 // IBV_QP_ALT_PATH
	QPPathMigState     = 1 << 18 // IBV_QP_PATH_MIG_STATE
	QPCap              = 1 << 19 // IBV_QP_CAP
	QPRateLimit        = 1 << 25 // IBV_QP_RATE_LIMIT
)

// enum ibv_srq_attr_mask.
const (
	SRQLimit = 1 << 1 // IBV_SRQ_LIMIT
)

// enum ibv_atomic_cap.
const (
	AtomicHCA = 1 // IBV_ATOMIC_HCA
)

// enum ibv_port_state.
const (
	PortActive = 4 // IBV_PORT_ACTIVE
)

// enum ibv_mtu.
const (
	MTU4096 = 5 // IBV_MTU_4096
)

// Link layers.
const (
	LinkLayerInfiniBand = 1 // IBV_LINK_LAYER_INFINIBAND
	LinkLayerEthernet   = 2 // IBV_LINK_LAYER_ETHERNET
)
