// Package verbs serves unmodified programs of rdma-core: to libibverbs and libmlx5 it is
// the kernel. Calls reach it over a unix socket, from a library that is preloaded into the
// program (the shim, in C, in the folder shim). Package engine executes the work requests;
// this package is a client of it for every opened device.
//
// # Terms
//
// A process is a connection, and the process at its other end. A context is an opened
// device; it ends when the last copy of its socket is closed. A method is one kind of ioctl,
// and an attribute one of its arguments. A write command is a request of the interface
// before ioctl; it is sent inside the method DEVICE.INVOKE_WRITE. An object has a handle,
// which is valid in its context. An extent is shared memory, made by the engine, that a
// process has mapped. A need is something that the shim has to do before it repeats a call.
//
// # Files, in reading order
//
//	server.go          Serve: the directory, its sockets, accepting connections
//	process.go         one connection: requests, and what a process has
//	wire.go            the protocol with the shim; shim/wire.h is the same in C
//	ioctl.go, call.go  one ioctl: arguments, needs, answer
//	schema.go          what methods and attributes are, and how they are checked
//	schema_device.go   the methods of the device
//	schema_objects.go  the methods of other objects
//	write.go           write commands
//	internal/abi       numbers and structures of the kernel, by name
//	context.go         a context, and its requests to the engine
//	object.go          handles, and what objects cost
//	pd.go mr.go cq.go srq.go qp.go modify.go ah.go multicast.go uar.go channel.go
//	                   one kind of object each
//	query.go gid.go device.go
//	                   what a program can ask about the device
//	areas.go           memory that a call names: found, or remapped by the shim
//	memory.go maps.go  extents of a process, and what it has mapped
//	share.go           memory that is not shared, and work that is announced
//	mmap.go            mmap of a context; memory that is shared from the start
//	events.go          asynchronous events
//	clock.go           the clock page
//	tree.go            files like those below /sys
//	watch.go budget.go trace.go errno.go describe.go
//	                   explanations, log, errors, documentation
//	shim_sources.go    the sources of the shim, for programs that build it
//
// # One request: ibv_reg_mr
//
//  1. libibverbs makes an ioctl: method DEVICE.INVOKE_WRITE, command REG_MR. The shim sends
//     it as it is, with the bytes of its attributes (nv_ioctl in shim/ioctl.c).
//  2. process.next reads the datagram, process.handle finds the function for its operation,
//     and process.ioctl parses it (parseIoctl) and locks the context.
//  3. call.serve looks the method up. call.check compares the attributes with its schema,
//     in the kernel's order, so that errors have the kernel's numbers.
//  4. invokeWrite looks the command up, checks the sizes and runs regMR. regMR reads struct
//     ib_uverbs_reg_mr, finds the protection domain (lookup), and asks call.payload where
//     the memory lies.
//  5. payload finds an extent (memory.find), and makes it a region of the engine
//     (uctx.hold). Or the memory stays the process's own, and uctx.shareProcess tells the
//     engine from which process to copy. With --fast-memory call.want adds a need instead,
//     and the call ends with errAgain: the shim remaps the pages (shim/remap.c) and makes
//     the same call again.
//  6. uctx.chargeObject charges the object to its user, uctx.register sends OpRegMR to the
//     engine, and uctx.add gives a handle.
//  7. call.put32 adds handle and keys to the answer, process.send sends it, and the shim
//     writes it to the program's memory.
//
// # Hostile programs
//
// Everything that arrives can be hostile. Lengths are checked before bytes are read, and the
// schema has checked every attribute before a method sees it. No goroutine that serves
// others closes a program's descriptor, which can block.
//
// # Sources
//
// Linux include/uapi/rdma (ib_user_ioctl_cmds.h, ib_user_verbs.h, mlx5-abi.h; see
// internal/abi) for the interface, and drivers/infiniband/core/uverbs_ioctl.c for the
// number with which each mistake is refused.
package verbs
