// Package explore is what nicless torture --explore runs: random programs on a device, in one thread and
// over virtual time, so that the same seed does the same on every machine.
//
// # Terms
//
// A [Plan] is everything that happens in a run, as data: the clients, the links between their queue pairs,
// and steps. A step posts work requests or receives, polls, steps the device, lets time pass, sets rules of
// faults, reconnects a link, or takes something away. Each step carries its own numbers, so a plan with
// steps left out is a plan too. [Draw] makes a plan from a seed. [Execute] does what it says, and checks.
// [Shrink] leaves out what a failure does not need. A [Record] is a run as a trace: its plan, its fault and
// its events.
//
// # What is checked
//
// The checker knows the plan and the memory of the clients, and nothing of the engine's code:
//
//   - each signaled work request has one completion, in the order of its queue, with the fields that its
//     operation has; those without signal have ended when a later one completes
//   - an error has a reason: a rule that may act on this work request, a key that is gone, a peer that is
//     gone or in error, a receive that is too short or missing. All after the first error is flushed
//   - bytes are those of the source as soon as the completion is polled, and no other byte of the client
//     changes: not beside a message, not in memory that is only read, not by work requests that were flushed
//   - receives complete in order, with the messages of the peer in the order in which they were posted
//   - without acknowledgements (UC, UD), a message may get lost only with such a reason
//   - atomics return what was there, and each is done once, also if its answer was lost
//   - when the rules have ended and all timers have run out, everything posted has completed
//   - the explanations in the record of a watch do not blame a poster for its records or WQEs
//   - the device holds nothing for clients that are closed
//
// Rules say how often they act; the checker asks only whether a rule may act on a work request. So it
// misses a rule that acts too often, and a rule that never does.
//
// # Files
//
//   - plan.go: Plan and its limits; steps.go: a plan as text; check.go: Parse and Check, for plans of others
//   - draw.go: Draw
//   - run.go: Execute, and what is checked at the end; panic.go: a panic is a fault
//   - world.go: the device, clients, memory and queues
//   - do.go: the steps; end.go: posting and connecting
//   - poll.go: completions; memory.go: bytes; excuse.go: the reasons of errors
//   - tape.go: the events of a run; file.go: Record
//   - shrink.go: Shrink; explore.go: Explore, Result
//
// docs/EXPLORE.md is for users, docs/design/0064-exploring.md has the reasons.
package explore
