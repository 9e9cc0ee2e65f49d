// Package verbs serves unmodified programs that use rdma-core: it answers libibverbs and
// libmlx5 in place of the kernel. The shim, a library in C that is preloaded into each
// program (folder shim), sends the program's calls to this package over a unix socket.
// Package engine executes the work requests. For each opened device, this package is a
// client of the engine.
//
// # Terms
//
// A process is one connection together with the operating system's process at its other
// end. A context is an opened device. The program's descriptor of the device is a socket,
// and the context ends when the last copy of that socket is closed. A method is one kind of
// ioctl, and an attribute is one of its arguments. A write command is a request of the older
// interface, in which programs wrote requests to the device file; it is sent inside the
// method DEVICE.INVOKE_WRITE. An object has a handle, which is valid in its context. An
// extent is shared memory, made by the engine, that a process has mapped. A need is
// something that the shim has to do before it repeats a call.
//
// # Files, in reading order
//
//	server.go          Serve: the directory, its sockets, accepting connections
//	process.go         one connection: its requests, and what its process has
//	wire.go            the protocol with the shim; shim/wire.h is the same in C
//	ioctl.go, call.go  one ioctl: arguments, needs, answer
//	schema.go          what methods and attributes are, and how they are checked
//	schema_device.go   the methods of the device
//	schema_objects.go  the methods of other objects
//	write.go           write commands
//	internal/abi       numbers and structures of the kernel, by name
//	context.go         a context, and its requests to the engine
//	object.go          handles, and what objects cost
//	pd.go mr.go cq.go srq.go qp.go xrcd.go xrc_target.go modify.go ah.go multicast.go uar.go channel.go
//	                   one kind of object each
//	device.go query.go caps.go
//	                   a device's identity and link layer; what a program can ask about it
//	gid.go             the GID table of a device in a network namespace, and queries of its entries
//	dm.go              device memory
//	dmabuf.go          regions of dma-bufs
//	dc.go              dynamically connected transport: DCI and DCT
//	firmware_qp.go     firmware commands about queue pairs: UDP source ports, reserved numbers
//	firmware.go        firmware commands that libmlx5 sends by itself; list keys (Mkeys)
//	areas.go           finding the memory that a call names, or having the shim remap it; holds of extents
//	memory.go maps.go  extents of a process, and what it has mapped
//	moves.go           which registered memory is moved into shared memory
//	odp.go             memory that is paged on demand
//	share.go           memory that the kernel copies; executing work already announced
//	moderate.go        moderation of completion events
//	mmap.go            mmap of a context; memory that is shared from the start
//	events.go          asynchronous events
//	clock.go           the clock page
//	cm.go tokens.go cm_write.go cm_network.go
//	                   channels of rdma_cm
//	remote.go          queue pairs whose peers are on other engines and hosts
//	subscriptions.go   at which addresses programs take datagrams of other engines and hosts
//	paths.go           the paths that users hold, and what they are charged for them
//	fabric.go gsi.go cm_wire.go
//	                   to other engines and hosts: packets for queue pair 1
//	lowport.go         which programs may take ports below 1024
//	internal/cm        the connection manager
//	netns.go           the addresses of a network namespace, and their places in the GID tables (gid.go)
//	networks.go        all such namespaces: claims, and the owners of addresses
//	addresses.go       the addresses that a process sends
//	announce.go        the addresses that the fabric gets
//	unserved.go        names of calls that are not served
//	history.go         what is likely if a program failed and nothing was refused
//	tree.go pci.go tree_write.go
//	                   files like those below /sys, for each namespace
//	watch.go budget.go trace.go errno.go describe.go
//	                   watchers, limits of the log, the log of calls, errors, documentation
//	shim_sources.go shim_embedded.go
//	                   the sources of the shim, for programs that build it
//
// # One request: ibv_reg_mr
//
//  1. libibverbs makes an ioctl: method DEVICE.INVOKE_WRITE, command REG_MR. The shim sends
//     the ioctl unchanged, with the bytes of its attributes (nv_ioctl in shim/ioctl.c).
//  2. process.next reads the datagram, process.handle finds the function for the datagram's
//     operation, and process.ioctl parses the ioctl (parseIoctl) and locks the context.
//  3. call.serve looks the method up. call.check compares the attributes with the method's
//     schema, in the kernel's order, so that errors have the kernel's numbers.
//  4. invokeWrite looks the command up, checks the sizes and runs regMR. regMR reads struct
//     ib_uverbs_reg_mr, finds the protection domain (lookup), and asks call.payload where
//     the memory is.
//  5. If the memory is in an extent, payload finds the extent (memory.find) and makes it a
//     region of the engine (uctx.addUse). Otherwise, if the memory can be moved into an extent,
//     call.move adds a need and the call ends with errAgain: the shim remaps the pages
//     (shim/remap.c) and makes the same call again. If the memory cannot be moved, or with
//     --slow-memory, it stays the process's own, and uctx.shareProcess gives the engine the
//     process from which to copy.
//  6. uctx.chargeObject charges the object to its user, uctx.register sends OpRegMR to the
//     engine, and uctx.add gives a handle.
//  7. call.put32 adds handle and keys to the answer, process.next sends it, and the shim
//     writes it to the program's memory.
//
// # Hostile programs
//
// Everything that arrives can be hostile. Lengths are checked before bytes are read, and the
// schema has checked every attribute before a method sees it. Closing a program's descriptor
// can block, so no goroutine that serves other programs does it.
//
// # Sources
//
// Linux include/uapi/rdma (ib_user_ioctl_cmds.h, ib_user_verbs.h, mlx5-abi.h; see
// internal/abi) for the interface, and drivers/infiniband/core/uverbs_ioctl.c for the
// error number with which each mistake is refused.
package verbs
