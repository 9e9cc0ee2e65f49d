//go:build linux && (amd64 || arm64)

package verbs

import (
	"encoding/binary"
	"math/bits"

	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/verbs/internal/abi"
)

// The answers to the firmware command QUERY_HCA_CAP. The layout and the names are those of
// mlx5_ifc.h. The header is not installed, so the places are written here.

// A capability is one field of a group of capabilities: the bits high to low of the
// big-endian word at offset at.
type capability struct {
	name          string
	at, high, low int
	value         uint32
}

// Groups of capabilities (enum mlx5_cap_type). A program may ask for the group's greatest
// values or for its present ones, which are the same here.
const (
	capGeneral      = 0x0
	capODP          = 0x2
	capAtomic       = 0x3
	capRoCE         = 0x4
	capDeviceMemory = 0xf
	capGeneral2     = 0x20

	capGroups = 0x40   // groups that hardware may have; those without capabilities here are all 0
	capSize   = 0x1000 // bytes of a group
)

// Values of capabilities that are not limits of the engine.
const (
	ethernet    = 1
	logMaxMRMem = 36 // logarithm of maxExtent
	logMMO      = 24 // a DMA copy may have more bytes, but programs allocate as many as this says
	logList     = 5  // logarithm of the entries of a list that a WQE always has room for
	atomicOps   = 0xf
	atomicSizes = 4 | 8
	logBFReg    = 9
)

// Operations that are possible with memory that is paged on demand, on a transport (struct
// mlx5_ifc_odp_per_transport_service_cap_bits): the upper six bits of a word.
const (
	onDemandSRQ = 1 << iota
	onDemandAtomic
	onDemandRead
	onDemandWrite
	onDemandReceive
	onDemandSend
)

// log2 returns the logarithm of n, rounded down.
func log2(n uint32) uint32 { return uint32(bits.Len32(n|1) - 1) }

// capabilities returns the device's values of a group of capabilities. A field that is not in the list is 0:
// the device does not have that capability.
func (x *uctx) capabilities(group int) []capability {
	l := x.limits
	switch group {
	case capGeneral:
		return []capability{
			{"hca_cap_2", 0x04, 31, 31, 1},
			{"log_dma_mmo_max_size", 0x0c, 20, 16, logMMO},
			{"log_max_srq_sz", 0x10, 31, 24, uint32(l.MaxLogRQ)},
			{"log_max_qp_sz", 0x10, 23, 16, uint32(l.MaxLogSQ)},
			{"log_max_qp", 0x10, 4, 0, log2(queues(l, l.MaxQPs))},
			{"log_max_srq", 0x14, 20, 16, log2(queues(l, l.MaxQPs))},
			{"log_max_cq_sz", 0x18, 23, 16, uint32(l.MaxLogCQ)},
			{"log_max_cq", 0x18, 4, 0, log2(queues(l, l.MaxCQs))},
			{"log_max_mkey", 0x1c, 21, 16, log2(l.MaxMRs)},
			{"dump_fill_mkey", 0x1c, 7, 7, 1},
			{"max_indirection", 0x20, 31, 24, 1},
			{"log_max_mrw_sz", 0x20, 22, 16, logMaxMRMem},
			{"log_max_klm_list_size", 0x20, 5, 0, logList},
			{"qpc_extension", 0x24, 29, 29, 1},
			{"rts2rts_qp_udp_sport", 0x28, 14, 14, 1},
			{"log_max_ra_req_qp", 0x28, 21, 16, log2(uint32(l.MaxRdAtomic))},
			{"dma_mmo_sq", 0x28, 12, 12, 1},
			{"log_max_ra_res_qp", 0x28, 5, 0, log2(uint32(l.MaxRdAtomic))},
			{"gid_table_size", 0x2c, 15, 0, log2(gidTableSize / 8)},
			{"pkey_table_size", 0x30, 15, 0, log2(maxPKeys / 128)},
			{"local_ca_ack_delay", 0x34, 20, 16, ackDelay},
			{"device_memory", 0x34, 23, 23, 1},
			{"port_type", 0x34, 9, 8, ethernet},
			{"num_ports", 0x34, 7, 0, 1},
			{"log_max_msg", 0x38, 28, 24, uint32(l.MaxMessageLog)},
			{"cqe_version", 0x3c, 3, 0, cqeVersion},
			{"compact_address_vector", 0x40, 31, 31, 1},
			{"umr_modify_atomic_disabled", 0x40, 23, 23, 1},
			{"wq_signature", 0x40, 11, 11, 1},
			{"roce", 0x40, 2, 2, 1},
			{"atomic", 0x40, 1, 1, 1},
			{"dct", 0x40, 5, 5, 1},
			{"cq_oi", 0x44, 31, 31, 1},
			{"cq_resize", 0x44, 30, 30, 1},
			{"ud", 0x44, 2, 2, 1},
			{"uc", 0x44, 1, 1, 1},
			{"rc", 0x44, 0, 0, 1},
			{"uar_4k", 0x48, 31, 31, 1},
			{"log_pg_sz", 0x48, 7, 0, logUARSize},
			{"bf", 0x4c, 31, 31, 1},
			{"log_bf_reg_size", 0x4c, 20, 16, logBFReg},
			{"max_wqe_sz_sq", 0x50, 15, 0, maxSendWQE},
			{"max_wqe_sz_rq", 0x54, 15, 0, maxRecvWQE},
			{"log_max_pd", 0x64, 20, 16, log2(l.MaxPDs)},
			{"log_uar_page_sz", 0x90, 15, 0, logUARSize},
			{"device_frequency_khz", 0x9c, 31, 0, uint32(clock.Hz() / 1000)},
			// The upper half.
			{"general_obj_types", 0x80, 31, 0, 1<<(reservedQPN-32) | 1<<(addressMapping-32)},
			{"num_of_uars_per_page", 0xa4, 31, 0, 1},
			{"log_max_atomic_size_qp", 0xb0, 31, 24, log2(8)},
			{"mini_cqe_resp_stride_index", 0xb4, 3, 3, 1},
			{"cqe_compression_128b", 0xb4, 1, 1, 1},
			{"cqe_compression", 0xb4, 0, 0, 1},
			{"cqe_compression_max_num", 0xb8, 15, 0, control.MaxMinis},
		}
	case capODP:
		const messages = onDemandSend | onDemandSRQ
		const all = messages | onDemandWrite | onDemandRead | onDemandAtomic
		return []capability{
			{"rc_odp_caps", 0x10, 31, 26, all | onDemandReceive},
			{"uc_odp_caps", 0x14, 31, 26, messages | onDemandWrite | onDemandReceive},
			{"ud_odp_caps", 0x18, 31, 26, messages | onDemandReceive},
			{"xrc_odp_caps", 0x1c, 31, 26, all}, // its receives are those of an SRQ
			{"dc_odp_caps", 0x20, 31, 26, all},
		}
	case capAtomic:
		return []capability{
			{"atomic_operations", 0x10, 15, 0, atomicOps},
			{"atomic_size_qp", 0x14, 15, 0, atomicSizes},
		}
	case capRoCE:
		return []capability{
			{"r_roce_max_src_udp_port", 0x18, 31, 16, 0xffff},
			{"r_roce_min_src_udp_port", 0x18, 15, 0, 0xc000},
			{"roce_address_table_size", 0x1c, 15, 0, gidTableSize},
		}
	case capDeviceMemory:
		return []capability{
			{"memic", 0x00, 31, 31, 1},
			{"log_max_memic_addr_alignment", 0x04, 7, 0, pageShift},
			{"memic_bar_size", 0x10, 31, 0, maxDMs * maxDM},
			{"max_memic_size", 0x14, 31, 0, maxDM},
		}
	}
	return nil
}

// put writes the capability into b, which begins with its group.
func (c *capability) put(b []byte) {
	mask := uint32(1<<(c.high-c.low+1) - 1)
	word := binary.BigEndian.Uint32(b[c.at:])
	binary.BigEndian.PutUint32(b[c.at:], word&^(mask<<c.low)|c.value&mask<<c.low)
}

// Offsets in the request and the answer of a firmware command, which all commands have.
const (
	cmdOpMod   = 6    // in the request
	cmdOutSize = 16   // status, syndrome and 8 bytes of the command's own
	capAt      = 0x10 // in the answer to QUERY_HCA_CAP: the group
)

// queryHCACap answers QUERY_HCA_CAP.
func queryHCACap(c *call, cmd []byte) error {
	group := int(binary.BigEndian.Uint16(cmd[cmdOpMod:]) >> 1)
	if group >= capGroups {
		return refuse(eINVAL, "QUERY_HCA_CAP: group %#x of capabilities; groups below %#x exist", group, capGroups)
	}
	b := make([]byte, capAt+capSize)
	for _, f := range c.x.capabilities(group) {
		f.put(b[capAt:])
	}
	c.put(abi.MLX5AttrDEVXOtherCmdOut, b)
	return nil
}
