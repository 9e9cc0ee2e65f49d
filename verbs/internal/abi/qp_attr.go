package abi

// The part of rdma/ib_user_verbs.h that rdma_cm uses too: the attributes that it gives to queue pairs.

// struct ib_uverbs_qp_attr.
const (
	UQPAttrSize            = 144 // sizeof(struct ib_uverbs_qp_attr)
	UQPAttrQPAttrMask      = 0   // offsetof(struct ib_uverbs_qp_attr, qp_attr_mask)
	UQPAttrQPState         = 4   // offsetof(struct ib_uverbs_qp_attr, qp_state)
	UQPAttrPathMTU         = 12  // offsetof(struct ib_uverbs_qp_attr, path_mtu)
	UQPAttrQKey            = 20  // offsetof(struct ib_uverbs_qp_attr, qkey)
	UQPAttrRQPSN           = 24  // offsetof(struct ib_uverbs_qp_attr, rq_psn)
	UQPAttrSQPSN           = 28  // offsetof(struct ib_uverbs_qp_attr, sq_psn)
	UQPAttrDestQPNum       = 32  // offsetof(struct ib_uverbs_qp_attr, dest_qp_num)
	UQPAttrQPAccessFlags   = 36  // offsetof(struct ib_uverbs_qp_attr, qp_access_flags)
	UQPAttrAHAttr          = 40  // offsetof(struct ib_uverbs_qp_attr, ah_attr)
	UQPAttrPKeyIndex       = 124 // offsetof(struct ib_uverbs_qp_attr, pkey_index)
	UQPAttrMaxRDAtomic     = 130 // offsetof(struct ib_uverbs_qp_attr, max_rd_atomic)
	UQPAttrMaxDestRDAtomic = 131 // offsetof(struct ib_uverbs_qp_attr, max_dest_rd_atomic)
	UQPAttrMinRNRTimer     = 132 // offsetof(struct ib_uverbs_qp_attr, min_rnr_timer)
	UQPAttrPortNum         = 133 // offsetof(struct ib_uverbs_qp_attr, port_num)
	UQPAttrTimeout         = 134 // offsetof(struct ib_uverbs_qp_attr, timeout)
	UQPAttrRetryCnt        = 135 // offsetof(struct ib_uverbs_qp_attr, retry_cnt)
	UQPAttrRNRRetry        = 136 // offsetof(struct ib_uverbs_qp_attr, rnr_retry)
)

// struct ib_uverbs_global_route.
const (
	GlobalRouteSize         = 24 // sizeof(struct ib_uverbs_global_route)
	GlobalRouteDGID         = 0  // offsetof(struct ib_uverbs_global_route, dgid)
	GlobalRouteFlowLabel    = 16 // offsetof(struct ib_uverbs_global_route, flow_label)
	GlobalRouteSGIDIndex    = 20 // offsetof(struct ib_uverbs_global_route, sgid_index)
	GlobalRouteHopLimit     = 21 // offsetof(struct ib_uverbs_global_route, hop_limit)
	GlobalRouteTrafficClass = 22 // offsetof(struct ib_uverbs_global_route, traffic_class)
)
