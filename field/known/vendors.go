package known

import "github.com/nicless/nicless/cqe"

// A Vendor is what is known about one vendor byte (vendor_err_synd, byte 54 of an error CQE)
// beside one syndrome. The vendor documents no meanings, and firmware may change them.
type Vendor struct {
	Syndrome cqe.Syndrome
	Byte     uint8
	Means    string // a phrase
	Sure     Sure
	Source   string // where it was seen or is written
}

// libmlx5 means providers/mlx5/cq.c of rdma-core.
var vendors = []Vendor{
	{cqe.LocalLength, 0x68, "a send whose headers the device could not take from the WQE: an Ethernet send without inline headers", Observed,
		"netdev mailing list, January 2021: XDP socket on a ConnectX-4 Lx"},
	{cqe.LocalQPOp, 0x68, "a malformed WQE: a UMR whose list is not aligned", Observed,
		"linux-rdma: fix of an alignment of UMRs in mlx5e"},
	{cqe.LocalQPOp, 0xd6, "a malformed WQE of a receive queue; the firmware's name is RDE_MAL_WQE", Observed,
		"openucx/ucx pull request 11444"},
	{cqe.LocalProtection, 0x32, "the key in a receive's list does not give access: wrong key or other protection domain", Observed,
		"openucx/ucx pull requests 7801 and 9167; fixes of mlx5e header split"},
	{cqe.LocalProtection, 0x51, "memory of a GPU that the device cannot reach through PCIe", Observed,
		"linux-rdma/perftest issue 173"},
	{cqe.LocalProtection, 0x52, "the key of a send's data segment does not give access", Observed, "FDio/csit issue 3988"},
	{cqe.LocalProtection, 0x53, "the key of a send's data segment does not give access", Observed, "Juniper/warp17 issue 81"},
	{cqe.LocalProtection, 0x56, "the IOMMU refused the device's access (IO_PAGE_FAULT in the kernel's log)", Observed,
		"linux-nvme mailing list, February 2022"},
	{cqe.Flush, 0xf9, "flushed; the byte adds nothing", Observed, "linux-nvme/nvme-cli issue 3268, ruihong123/dLSM issue 7"},
	{cqe.MWBind, 0x25, "a UMR could not write the translation of an Mkey", Observed, "reports of failed registrations in guests"},
	{cqe.MWBind, 0x78, "a UMR has more entries than its Mkey", Observed, "linux-rdma: fix of the Mkey's size for on-demand paging"},
	{cqe.RemoteInvalidRequest, 0x8a, "NAK invalid request from the responder", Observed, "charmplusplus/charm issue 2532"},
	{cqe.RemoteAccess, 0x88, "NAK remote access error from the responder", Observed,
		"ofiwg/libfabric issue 4283, openucx/ucx issue 1569"},
	{cqe.TransportRetry, 0x81, "no acknowledgement arrived", Observed, "openucx/ucx issues 5199, 6669 and 9590, NVIDIA/nccl issue 1814"},
	{cqe.RNRRetry, 0x87, "RNR NAK from the responder", Observed, "public notes of RNR tests on ConnectX"},
	{cqe.RemoteAborted, 0x93, "a page fault of on-demand paging; with an SRQ libmlx5 hides the CQE and posts the entry again", Documented, "libmlx5"},
}

// Vendors returns all rows, ordered by syndrome and byte. The caller owns the slice.
func Vendors() []Vendor { return append([]Vendor(nil), vendors...) }

// AboutVendor returns what is known about a vendor byte beside a syndrome. ok is false if the
// pair has not been seen; others are then the rows of the same syndrome.
func AboutVendor(s cqe.Syndrome, vendor uint8) (about Vendor, others []Vendor, ok bool) {
	for _, v := range vendors {
		if v.Syndrome != s {
			continue
		}
		if v.Byte == vendor {
			return v, nil, true
		}
		others = append(others, v)
	}
	return Vendor{}, others, false
}

// WithVendorByte returns the rows of all syndromes that have this vendor byte.
func WithVendorByte(vendor uint8) (rows []Vendor) {
	for _, v := range vendors {
		if v.Byte == vendor {
			rows = append(rows, v)
		}
	}
	return rows
}
