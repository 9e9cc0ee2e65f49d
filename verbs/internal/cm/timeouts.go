//go:build linux && (amd64 || arm64)

package cm

import "time"

// timewait returns how long the kernel waits (cm_convert_to_ms). The unit of the timeout is
// 4.096 µs times a power of 2.
func timewait(timeout uint8) time.Duration {
	return time.Millisecond << max(int(timeout)-8, 0)
}

// lifetime is the time that a packet may be on its way on RoCE, as a power of 2
// (CMA_IBOE_PACKET_LIFETIME).
const lifetime = 16

// How long connection managers of Linux wait for each other, as a power of 2, and how often
// they send a message again (CMA_CM_RESPONSE_TIMEOUT, CMA_MAX_CM_RETRIES).
const (
	responseTimeout = 20
	maxCMRetries    = 15
)

// A requester announces how long to wait for its answers, and for its last packets. These are the
// longest times, as powers of 2, so that no link stays here for days: 17 s for an answer, more than
// connection managers of Linux ask for; and 8 s for a link without a program. The numbers of queue
// pairs are used again so late that no packet of a link is on its way then.
const (
	longestAnswer   = 22
	longestTimewait = 21
)

// ackTimeout returns the timeout of a connection's queue pairs (cm_ack_timeout): there and back,
// and the time that the other device takes for the answer.
func (i *id) ackTimeout(delay uint8) uint8 {
	t := uint8(lifetime + 1)
	if i.timeout != 0 {
		t = i.timeout
	}
	if t >= delay {
		if delay >= t-1 {
			t++
		}
	} else if t, delay = delay, t; delay >= t-1 {
		t++
	}
	return min(t, 31)
}
