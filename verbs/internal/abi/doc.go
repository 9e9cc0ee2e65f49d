// Package abi is the binary interface between libibverbs, libmlx5 and the kernel, as
// far as package verbs serves it: numbers of objects, methods, attributes and commands,
// flags, and the sizes and offsets of structures. It has constants only.
//
// Each file has constants of one header. The comment of a constant is the C expression that
// the constant equals: an enumerator, sizeof, or offsetof. The Go name is the C name without
// its prefix, and for a field, the structure's name followed by the field's:
//
//	UVERBS_ATTR_CREATE_CQ_CQE                      AttrCreateCQCQE
//	sizeof(struct ib_uverbs_reg_mr)                RegMRSize
//	offsetof(struct ib_uverbs_reg_mr, start)       RegMRStart
//	offsetof(struct mlx5_ib_create_cq, buf_addr)   MLX5CreateCQBufAddr
//
// All files but this one and newer.go are made by tools/abi, whose names.txt lists the names. Its test
// compares them with the headers that are installed. The kernel has promised these values to programs, so
// they do not change.
//
// Sources: include/uapi/rdma of Linux (package linux-libc-dev of Debian), and
// infiniband/verbs.h of rdma-core (package libibverbs-dev). All integers are in the
// byte order of the machine, little-endian on those that are supported, except where a
// structure says __be64.
package abi
