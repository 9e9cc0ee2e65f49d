// Package devx describes the mailboxes of firmware commands: the bytes that programs pass to
// mlx5dv_devx_obj_create and its relatives (DEVX) to make queues themselves.
//
// A mailbox is a command or its answer. It is big-endian and has a length of its own for each
// command. A command begins with its number (the opcode), an answer with a status and a
// syndrome. Fields follow, most of them in contexts: the context of a queue pair
// (QPC), of a completion queue (CQC), of a receive queue that queue pairs share (RMPC and WQ),
// of a dynamically connected target (DCTC), of a memory key (MKC).
//
// There is one table. A [Field] knows its place, its width and its meaning; everything that
// reads or writes a mailbox does it by a Field: the device (package verbs), nicless decode
// (Describe), explanations, documentation, golden tests and fuzzing.
//
// # Files
//
//   - field.go: what a field is, and how it is read and written
//   - command.go: which commands there are, and how long their mailboxes are
//   - names.go: the names of other commands
//   - head.go: fields that all commands have, and those that name objects and memory
//   - qpc.go: the context of a queue pair
//   - cqc.go: the context of a completion queue
//   - wq.go: the contexts of an RMP and of its receive queue
//   - dctc.go: the context of a DCT
//   - mkc.go: the context of a memory key
//   - describe.go: the fields of a mailbox, for people and for JSON
//   - summary.go: a mailbox in one line, and the bits that no field has
//   - markdown.go: the tables as documentation
//   - query.go: answers of commands that ask about the device
//   - caps.go: the capabilities of a device, in groups
//   - values.go: names of values
//   - status.go: the values of a status
//   - syndrome.go: what the syndromes of nicless mean
//
// # Sources
//
// Names and places are those of mlx5_ifc.h, of which each client has its own: Linux, rdma-core, DOCA
// GPUNetIO, NVSHMEM, UCX. Where they differ, a comment says how. docs/reference/firmware-commands.md is
// made from the tables here.
package devx
