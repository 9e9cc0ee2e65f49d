// Package order is the memory of a GPU whose stores are seen late and in any order that the memory model of
// PTX allows, as far as this model goes: it finds programs that need a fence which they do not have.
//
// # Levels
//
// A store goes into the buffer of its lane. From there it goes on to the buffer of the lane's block, to the
// buffer of the GPU, and to the memory that all of the system share: at a time that a random number decides,
// and before older stores of the same lane unless they are to the same bytes. A lane sees the stores in its
// own buffer, in its block's, in the GPU's and in memory; the device, the host and other GPUs see memory. A
// weak load may see a line of 128 bytes as its block has loaded it before.
//
// # Fences
//
// A fence moves the stores that its lane can see to the level of its scope: to the block's buffer, the
// GPU's, or memory. This is more than the model asks for, since it moves stores of others that the lane has
// not looked at; so a program that is wrong may pass, and one that is right does not fail. After a fence,
// or a load with acquire order, of a scope larger than a block the lane sees nothing older than what it
// knows of: a clock says for each block, and for the device, up to when. A version of a word carries the
// clock
// that its writer had released, an acquire joins it, and a fence those of all that was read before it;
// sequentially consistent fences also have an order of their own. A release moves stores as a fence does, and
// acquires nothing. The device knows all that was released to the system, and what it stores says so. Loads
// are executed in their order: a load may see an old value, but none of the future. An atomic operation is
// executed in memory, after older stores to the same bytes.
//
// # Randomness
//
// A seed decides everything: how long stores stay in the buffers of each level, too. So one seed has a GPU
// that hides stores from other blocks for a long time, and another one that hides them from the system
// only; and with half of them a warp often lingers between a release and what comes next.
//
// Source: PTX ISA 9.0, section 8 (memory consistency model).
package order
