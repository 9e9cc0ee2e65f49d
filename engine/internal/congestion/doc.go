// Package congestion decides how many packets a queue pair may have on the way on a long path.
//
// It is pure logic, without packets and clocks: package recovery tells it what a round trip has brought. The
// types are not safe for concurrent use.
//
// # Terms
//
// A round begins when a packet is sent, and ends when the peer is known to have got it or one that was sent
// later. Its time is thus a round-trip time. The packets that the peer has got in a round were on the way
// when it began. The pipe is how many packets are on the way if the queues of the network are empty: those of
// a round times the least round-trip time, divided by the time of this round.
//
// # The law
//
// The window becomes the pipe and a step of a quarter of the window and 32 packets. Packets that are lost
// count like those that have come, so a network that loses some whatever it carries costs no window. Queues
// stay short, because time in them makes the pipe smaller: with one sender about a third of the pipe. The 32
// packets are the same for all, so of two senders the one with less gains more in each round, until they are
// equal.
//
// If more than one packet of 16 is lost in a round, the network is overloaded: the window becomes smaller by
// the part that was lost and an eighth, and the step begins anew with four packets, and becomes half as large
// again in each round, for some time only up to 24. That serves networks with so short a queue that time in
// it does not show.
//
// The model is that of BBR (draft-ietf-ccwg-bbr: a rate, a least time, a bound on loss, times of less to see
// the least time) with the window of FAST TCP (Wei, Jin, Low and Hegde, 2006), which needs no packets to be
// paced, and shares fairly by itself. CUBIC (RFC 9438) takes each loss for a queue that is full.
//
// # Files
//
//   - window.go: the window of one queue pair
//   - trip.go: the least round-trip time of a path, and when it is looked for again
package congestion
