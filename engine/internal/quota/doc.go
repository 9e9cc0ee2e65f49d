// Package quota accounts for what users have of the scarce resources of the device's
// process: descriptors, memory, mappings and others. It says how much a user may have.
//
// A resource is a thing of which the process can have a limited number. A charge is a number
// of each resource; a user has what has been charged to it and not been refunded. The limits
// of a single client do not suffice, because a user can open many clients; nor do equal
// halves, because two users can work together. So the rule is: a user may have no more of a
// resource than it leaves free for everybody else. The first user may have half, the next
// one half of the rest, and so on, so that the next user always gets something. Part of each
// resource is left to the process itself and belongs to no user.
//
// Some charges cannot be refused, because the user has the thing already: a message brings
// descriptors before its sender is asked. What is charged beyond the user's part is a debt.
// It does not take from what is free for others, and its user gets nothing until it is
// refunded.
//
// Users are uids. A uid from a range of /etc/subuid, as container programs use them, is
// not a user of its own: the owner of the range pays for it.
//
// Files, in reading order:
//
//	resource.go  the resources, and charges
//	ledger.go    who has what, who may have more
//	limits.go    how much there is of each resource
//	owners.go    who pays for a uid
package quota
