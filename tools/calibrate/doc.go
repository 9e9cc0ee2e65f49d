// Package calibrate measures what cache lines cost between two cores of this machine: the prices
// of a model of NICs and hosts. In the same rounds it measures the floors that such a model must
// predict. It predicts nothing itself.
//
// Terms: a shape is a way of exchanging lines between two threads, each on a core of its own. A
// row is one shape, played for less than a millisecond. A round is all rows, one after another.
// Prices are differences of rows of one round. A state is what a transfer of a line costs in a
// virtual machine while its cores stay where the host has put them. A host moves cores at any
// moment, and a transfer may then take five times as long. So prices and floors are only
// comparable within a round, and a round in which the state changed is dropped.
//
// While a processor polls, it predicts what comes next and fetches lines for it, or takes them away
// from the other core. Whether it does depends on the machine code. So all shapes poll with the
// same code, and prices that are differences of long exchanges are measured with a pause after each
// poll that has found its value: see awaitCalmly. The floors have no pauses, as in C.
//
// No held-out floor is a shape of a price. Two prices, signal and handover, have the shapes of
// the floors pp_line_each_way_rtt and pp_same_line_rtt, but are measured in rows of their own.
//
// Files, in reading order:
//
//	result.go            options and results, and what each price is
//	memory.go            the lines, and how they are written, read and polled
//	pair.go              two threads that play a shape in step, and its time
//	floors.go            the shapes of the floors
//	prices.go            the shapes of prices that are one exchange
//	halves.go            the shapes of prices whose exchanges have two halves: write, then read
//	loads.go             loads of a core that has its lines to itself
//	caches.go            the sizes of this machine's caches
//	rounds.go            rounds, and which of them were disturbed
//	derive.go            prices from the rows of a round, and samples from rounds
//	calibrate.go         Run
//	calibrate_other.go   Run where there is no device
package calibrate
