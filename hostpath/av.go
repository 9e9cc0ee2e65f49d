package hostpath

import "github.com/nicless/nicless/wqe"

// RoCE is the destination of datagrams on an Ethernet port: the attributes of a
// verbs address handle.
type RoCE struct {
	V2           bool   // the source GID is of type RoCE v2
	SGIDIndex    uint8  // index of the source GID
	SL           uint8  // service level 0..7, which becomes the Ethernet priority
	Rate         uint8  // code of the static rate in the device's numbering, 0..15; 0 means no static rate
	TrafficClass uint8  //
	HopLimit     uint8  //
	FlowLabel    uint32 // 20 bits
	UDPPort      uint16 // source port for RoCE v2 without a flow label
	MAC          [6]byte
	GID          [16]byte // GID of the receiver
}

// AV returns the address vector. It can be made once and used for many sends. Each
// send sets the QPN and the Q_Key.
func (r *RoCE) AV() wqe.AV {
	av := wqe.AV{
		CompactAV: wqe.CompactAV{RateSL: r.Rate<<4 | r.SL&7<<1},
		RMAC:      r.MAC,
		TClass:    r.TrafficClass,
		HopLimit:  r.HopLimit,
		GRH:       uint32(r.SGIDIndex)<<20 | r.FlowLabel&0xfffff,
		RGID:      r.GID,
	}
	if r.V2 {
		av.RLID = r.UDPPort
		if r.FlowLabel&0xfffff != 0 {
			av.RLID = udpPort(r.FlowLabel)
		}
	}
	return av
}

// udpPort folds a 20-bit flow label into the 14 bits of a RoCE v2 source port,
// as all drivers do (rdma_flow_label_to_udp_sport).
func udpPort(flow uint32) uint16 {
	return uint16(0xc000 | (flow^flow>>14&0x3f)&0x3fff)
}
