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
// Requests:
//
//   - server.go: whether a server may use the directory; when programs are accepted, and notified of the end
//   - process.go: which function serves a datagram; which context a descriptor belongs to
//   - wire.go: how the protocol with the shim is laid out (shim/wire.h is the same in C); decides nothing
//   - ioctl.go: parses one ioctl, runs its method, and sends needs or the answer
//   - call.go: reads arguments, builds the answer; whether a descriptor has still to be sent by the shim
//   - schema.go: whether the attributes of a call are right, and with which errno one is refused (check)
//   - schema_device.go: which methods and attributes the device has
//   - schema_objects.go: which methods and attributes other objects have
//   - write.go: whether a write command exists, and whether its sizes are right
//   - internal/abi: numbers and structures of the kernel, by name
//   - context.go: when a context ends, and what is destroyed with it; sends its requests to the engine
//   - object.go: whether an object may be destroyed (unused); the count of events that a destroy waits for
//
// One kind of object each:
//
//   - pd.go: allocates and queries PDs; whether one may be destroyed: object.go
//   - mr.go: whether memory is registered, with which rights, and whether it is in an extent or stays
//     (payload)
//   - mr_any.go: whether a region by address or by dma-buf was meant, in calls of newer libraries
//   - cq.go: which CQ is made: ring, entry size, compression; resizing it
//   - srq.go: which SRQ is made, modified and queried
//   - qp.go: which queue pair is made: rings, features, scatter to CQE
//   - xrcd.go: which file opens which XRC domain
//   - xrc_target.go: which handles share an XRC target, and when a program leaves it
//   - modify.go: which attributes modify_qp passes on or ignores; what query_qp answers
//   - ah.go: whether the address of a peer is right, and is of this engine (isHere)
//   - multicast.go: whether a queue pair is attached to a group
//   - uar.go: which UAR page a program gets, and whether it may use the page
//   - wake.go: how a program that posts wakes the device
//   - channel.go: which completion channel a descriptor is, and when a closed one ends
//   - dm.go: where device memory is, and how it is registered
//   - dmabuf.go: whether a dma-buf can be registered, and its size
//   - guard.go: whether the device guards a send queue
//   - dc.go: whether DCI and DCT are made and modified; where they lead is decided in the engine
//     (object/dc.go)
//   - devx.go: how a firmware command that failed is answered; which methods only contexts with DEVX have
//   - devx_general.go: which firmware commands about no object are answered; numbers of event queues
//   - umem.go: which memory a umem has, and where the engine finds it
//   - firmware.go: which firmware commands (DEVX) are answered in which context
//   - firmware_mkey.go: whether a list key (Mkey) is made, and what is in it
//   - firmware_qp.go: which DEVX commands about queue pairs are answered; reserved numbers
//   - devx_object.go: which firmware commands make objects; where a wrong field is named (syndromeOf)
//   - devx_cq.go: which CQ CREATE_CQ makes
//   - devx_qp.go: which queue pair CREATE_QP makes: rings and record in umems, doorbells
//   - devx_shared.go: which RMP and which DCT are made
//   - devx_modify.go: which fields of a transition count (opt_param_mask)
//   - devx_query.go: what QUERY_QP answers, at once or by a descriptor
//
// The device as programs see it:
//
//   - device.go: the name, GUID, MAC and link layer of a device
//   - lid.go: which LIDs its InfiniBand ports have
//   - query.go: the limits and properties that a program is told
//   - caps.go: the capabilities of the firmware (HCA_CAP) that libmlx5 and DEVX programs are told
//   - gid.go: which entry of the GID table has a GID; answers queries; which slot it has is decided in
//     netns.go
//   - tree.go: which files below /sys a device has, and what is in them
//   - pci.go: the place of a device on the PCI bus, and its files
//   - counters.go: what the counters of a port count, and how old a value may be
//   - counters_renew.go: when the files of counters are renewed, for programs without the shim
//   - tree_write.go: which files are written anew, when addresses change
//   - clock.go: what the clock page says, and when it is written
//
// Memory:
//
//   - areas.go: whether a call's memory is in shared memory, or the shim has to remap it; hidden memory
//   - join.go: areas in several extents
//   - memory.go: which extent has an address, when an extent is freed, and what may be remapped (remappable)
//   - maps.go: what a process has mapped at an address
//   - moves.go: whether registered memory is moved into shared memory, and why not
//   - odp.go: whether memory on demand may be advised or fetched; its capabilities
//   - share.go: whether the engine gets the process to copy from; executes work already announced
//   - mmap.go: which memory an mmap of a context gets; memory that is shared from the start
//   - rings.go: memory for rings, which small ones share
//
// Events:
//
//   - events.go: which event a program gets (translate), and which unread events are taken back (retract)
//   - devx_events.go: who may subscribe to which event of DEVX, and when a subscription ends
//   - devx_publish.go: who gets an event of DEVX, and what its event queue entry says
//   - devx_feed.go: whether an event of DEVX is sent, waits, or is one that the program has not read yet
//   - devx_completion.go: how completion events of CQs of CREATE_CQ come to their subscriptions
//   - moderate.go: whether a moderation of completion events is refused; when an event is sent: the engine
//
// rdma_cm:
//
//   - cm.go: which descriptor is which channel of rdma_cm, and when a channel ends
//   - tokens.go: how long the manager waits for the pipe of a channel
//   - cm_write.go: parses a write to a channel; runs nothing itself
//   - cm_network.go: which device, namespace and entry an address is of, for the connection manager
//   - cm_wire.go: how management datagrams leave and come; whose address it is (Home)
//   - lowport.go: which programs may take ports below 1024
//   - internal/cm: the connection manager
//
// NETLINK_RDMA, by which libraries find devices and administrators list resources:
//
//   - netlink.go: which descriptor is which socket, its options, when it ends; who is an administrator
//   - netlink_request.go: whether a request is served, and with which errno it is refused
//   - netlink_send.go: whether a message is sent, waits, or is lost
//   - netlink_device.go: what is said of devices, ports and character devices
//   - netlink_resources.go: which resources a program sees, and which message of a dump has them
//   - netlink_entries.go: what is said of one resource
//   - netlink_stat.go: what is said of counters
//   - netlink_monitor.go: which monitors are told that devices or their interfaces change
//   - netlink_pid.go: which number a process has in a reader's PID namespace
//   - internal/nldev: the formats
//
// Management datagrams (MADs):
//
//   - mad_file.go: when a file of MADs is open; what a read of it gets
//   - mad_agent.go: which agents a program may register, and which of them gets an unsolicited datagram
//   - mad_send.go: whether a write is right; when a request is answered, and when it times out
//   - mad_subnet.go: the subnet that programs see: one switch, and where a LID or a directed route leads
//   - mad_port.go: the ports of the subnet, this server's and those that other engines state
//   - mad_link.go: what is taken from other engines, and how much; which counts say what was dropped
//   - mad_answer.go: how the nodes of the subnet answer
//   - mad_counters.go: which counter of sysfs is which of PortCounters, and since when it counts
//   - internal/mad: formats of datagrams and attributes
//
// Other engines and hosts:
//
//   - remote.go: whether a peer is elsewhere, and the path that a queue pair or address handle then holds
//   - subscriptions.go: at which addresses programs take datagrams of other engines and hosts
//   - paths.go: whether a user may hold a path, and what that costs
//   - fabric.go: the interface of links; decides nothing
//   - gsi.go: the headers of a management datagram, and whether one that came is right
//   - netns.go: which slot of the GID table an address gets (place), and whether the table has changed (scan)
//   - networks.go: which namespace owns an address, and when an idle namespace is dropped
//   - addresses.go: which addresses a process sends are possible
//   - watch_addresses.go: which addresses the engine's own namespace has, and when they change
//   - announce.go: which addresses the fabric is told
//
// Explanations:
//
//   - unserved.go: the name and the reason of a call that is not served
//   - history.go: what is likely if a program failed and nothing was refused, or if it found no device
//   - watch.go: which watchers get an explanation
//   - budget.go: how many lines of a program the log and the watchers get
//   - trace.go: what the log says of a call; decides nothing
//   - errno.go: which errno a refusal has
//   - describe.go: the list of calls for the documentation
//   - shim_sources.go: which sources the shim is built from
//   - shim_embedded.go: which of them are inside this command
//   - record_sources.go: which sources the library of nicless record is built from
//
// # One request: ibv_reg_mr
//
//  1. libibverbs makes an ioctl: method DEVICE.INVOKE_WRITE, command REG_MR. The shim sends
//     the ioctl unchanged, with the bytes of its attributes (nv_ioctl in shim/ioctl.c).
//  2. process.serveRequest reads the datagram, process.handle finds the function for the datagram's
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
//  7. call.put32 adds handle and keys to the answer, process.serveRequest sends it, and the shim
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
