// Package announce finds work that posters announce otherwise than by a doorbell record alone.
//
// A Source is of one send queue. It looks at the doorbell registers of the queue's UAR page, and perhaps
// at the send word of the client's record, and says how many blocks are announced (source.go). If
// accelerators post whose stores may arrive in any order, it has a guard: the device executes a WQE only
// when all of it has arrived (guard.go, written.go).
//
// The device executes what Source.Record announces, a word of its own. So everything that reads a record
// works as for other queues. With a guard, it executes from a ring of its own too.
//
// A Source is used by one thread.
package announce
