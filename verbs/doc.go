// Package verbs serves programs that use rdma-core: it is what the kernel is to
// libibverbs and libmlx5, except that it is reached through a socket.
//
// Terms: a process is a connection, and the program at its other end; a context is an
// opened device, which lives as long as its socket is open somewhere; a method is one
// kind of ioctl, an attribute one of its arguments; a write command is a method of
// older times, which travels inside of one method; an object has a handle that is good
// in its context; an extent is memory of ours that a process has mapped.
//
// Layout: wire.go is what the shim and we say to each other; schema*.go what
// methods there are and how their arguments look, from which checking, tracing
// and documentation come; each kind of object has a file of its own; memory.go
// and maps.go know where things lie.
//
// Everything that arrives may be hostile: lengths are looked at before bytes, and
// the schema has judged each attribute before a method sees it.
//
// Sources: linux include/uapi/rdma (ib_user_ioctl_cmds.h, ib_user_verbs.h,
// mlx5-abi.h) and drivers/infiniband/core/uverbs_ioctl.c for what is refused how.
package verbs
