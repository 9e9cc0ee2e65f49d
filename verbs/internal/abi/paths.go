package abi

// rdma/ib_user_sa.h: descriptions of paths.

// Flags of a path.
const (
	PathGMP           = 1  // IB_PATH_GMP
	PathPrimary       = 2  // IB_PATH_PRIMARY
	PathBidirectional = 40 // IB_PATH_BIDIRECTIONAL
)

// struct ib_path_rec_data.
const (
	PathRecDataSize    = 72 // sizeof(struct ib_path_rec_data)
	PathRecDataFlags   = 0  // offsetof(struct ib_path_rec_data, flags)
	PathRecDataPathRec = 8  // offsetof(struct ib_path_rec_data, path_rec)
)

// struct ib_user_path_rec.
const (
	UserPathRecSize                   = 64 // sizeof(struct ib_user_path_rec)
	UserPathRecDGID                   = 0  // offsetof(struct ib_user_path_rec, dgid)
	UserPathRecSGID                   = 16 // offsetof(struct ib_user_path_rec, sgid)
	UserPathRecDLID                   = 32 // offsetof(struct ib_user_path_rec, dlid)
	UserPathRecSLID                   = 34 // offsetof(struct ib_user_path_rec, slid)
	UserPathRecFlowLabel              = 40 // offsetof(struct ib_user_path_rec, flow_label)
	UserPathRecReversible             = 44 // offsetof(struct ib_user_path_rec, reversible)
	UserPathRecMTU                    = 48 // offsetof(struct ib_user_path_rec, mtu)
	UserPathRecPKey                   = 52 // offsetof(struct ib_user_path_rec, pkey)
	UserPathRecHopLimit               = 54 // offsetof(struct ib_user_path_rec, hop_limit)
	UserPathRecTrafficClass           = 55 // offsetof(struct ib_user_path_rec, traffic_class)
	UserPathRecNumbPath               = 56 // offsetof(struct ib_user_path_rec, numb_path)
	UserPathRecSL                     = 57 // offsetof(struct ib_user_path_rec, sl)
	UserPathRecMTUSelector            = 58 // offsetof(struct ib_user_path_rec, mtu_selector)
	UserPathRecRateSelector           = 59 // offsetof(struct ib_user_path_rec, rate_selector)
	UserPathRecRate                   = 60 // offsetof(struct ib_user_path_rec, rate)
	UserPathRecPacketLifeTimeSelector = 61 // offsetof(struct ib_user_path_rec, packet_life_time_selector)
	UserPathRecPacketLifeTime         = 62 // offsetof(struct ib_user_path_rec, packet_life_time)
)
