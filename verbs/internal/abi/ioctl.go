package abi

// rdma/rdma_user_ioctl_cmds.h: the ioctl itself: its header and its attributes.

// enum: flags of an attribute.
const (
	AttrFMandatory = 1 << 0 // UVERBS_ATTR_F_MANDATORY
)

// struct ib_uverbs_ioctl_hdr.
const (
	IoctlHdrSize      = 24 // sizeof(struct ib_uverbs_ioctl_hdr)
	IoctlHdrLength    = 0  // offsetof(struct ib_uverbs_ioctl_hdr, length)
	IoctlHdrObjectID  = 2  // offsetof(struct ib_uverbs_ioctl_hdr, object_id)
	IoctlHdrMethodID  = 4  // offsetof(struct ib_uverbs_ioctl_hdr, method_id)
	IoctlHdrNumAttrs  = 6  // offsetof(struct ib_uverbs_ioctl_hdr, num_attrs)
	IoctlHdrReserved1 = 8  // offsetof(struct ib_uverbs_ioctl_hdr, reserved1)
	IoctlHdrDriverID  = 16 // offsetof(struct ib_uverbs_ioctl_hdr, driver_id)
	IoctlHdrReserved2 = 20 // offsetof(struct ib_uverbs_ioctl_hdr, reserved2)
)

// struct ib_uverbs_attr.
const (
	AttrSize     = 16 // sizeof(struct ib_uverbs_attr)
	AttrAttrID   = 0  // offsetof(struct ib_uverbs_attr, attr_id)
	AttrLen      = 2  // offsetof(struct ib_uverbs_attr, len)
	AttrFlags    = 4  // offsetof(struct ib_uverbs_attr, flags)
	AttrAttrData = 6  // offsetof(struct ib_uverbs_attr, attr_data)
	AttrData     = 8  // offsetof(struct ib_uverbs_attr, data)
)
