// Package quota counts how much of the scarce resources of the device's process each user
// has, and says how much a user may have. The resources are descriptors, memory, mappings
// and others.
//
// A resource is a thing of which the process can have a limited number. A charge is an amount
// of each resource. A user has what has been charged to it and not been refunded.
//
// A user may have no more of a resource than it leaves free for all other users. So the
// first user may have half, the next user half of the rest, and so on, and the next user
// always gets something. Limits for each client would not suffice, because a user can open
// many clients. A limit of one half for each user would not suffice, because two users can
// work together. A part of each resource is kept for the process itself and belongs to no
// user.
//
// Some charges cannot be refused, because the user has the thing already. For example, a
// message brings descriptors before the receiver can refuse them. Descriptors that are
// charged beyond the user's part are a debt. A debt does not reduce what is free for others.
// A user with a debt gets no further descriptors until the debt is refunded.
//
// Users are uids. A uid from a range of /etc/subuid, as container programs use them, is
// not a user of its own. The owner of the range pays for such a uid, which means that charges
// for the uid are charged to the owner.
//
// Files, in reading order:
//
//	resource.go  the resources, and charges
//	ledger.go    what each user has, and who may have more
//	limits.go    how much there is of each resource
//	subuid.go    which user pays for a uid, by /etc/subuid
package quota
