//go:build linux && (amd64 || arm64)

package roce

import (
	"time"

	"github.com/nicless/nicless/fabric/auth"
)

const authCarrier = "nicless roce 1" // the prologue of handshakes

// firstSize is the size of message 1. No answer to message 1 is longer, so nobody can make this engine send
// more bytes to a forged address than message 1 has.
const firstSize = authHead + max(auth.CookieSize+auth.Message1Size, auth.Message2Size)

// Times of the goroutine's looks.
const (
	lookAttempts = 10 * time.Millisecond  // how often there is a look while there are handshakes
	lookRemotes  = 100 * time.Millisecond // how often sessions are looked at, and there is a look at all
	lookPeers    = time.Second            // how often the file of peers is looked at

	// Remotes without paths are removed by sweep.
	sweepEvery  = 10 * time.Second // how often there is a sweep
	sweepAfter  = time.Minute      // age of its last packet at which a remote without a session is removed
	mostRemotes = 2 * tableSize    // from this number on, remotes with a session are removed too
)

// Times of a handshake.
const (
	// A message is sent again after firstResend, which is longer than most round trips, then after twice that
	// time, and so on, mostResends times: the handshake fails after 1.9 s. If packets without keys follow, it
	// is sent again only resendsPlain times: the handshake fails after 0.2 s.
	firstResend  = 30 * time.Millisecond
	mostResends  = 5
	resendsPlain = 2

	answerLife = 3 * time.Second // how long the answering end waits for message 3

	// Pauses before the next attempt: after a failure, and after a refusal, because a file or an option has
	// to change then.
	againAfter = 250 * time.Millisecond
	refusedFor = 2 * time.Second

	mostCookies = 4 // how many cookies an initiator uses in one handshake

	mostVerdicts = 2 * mostResends // how often the answering end sends its verdict again
)

// Times of a session.
const (
	// If packets are sent and nothing comes for this time, the peer may have lost the session: a new
	// handshake begins.
	mostSilence = time.Second

	// If packets come and none is sent for this time, a sealed verdict shows the peer that this end is up.
	keepalive = 300 * time.Millisecond

	mostAge = time.Hour // when a session ends

	renewAgeInitiating = 55 * time.Minute // when the end that has begun the session begins the next session
	renewAgeAnswering  = 58 * time.Minute // when the other end begins it, if there is no next session yet

	oldSession = 10 * time.Second // how long the previous session is kept after its last packet

	// mostSealed is how many datagrams are sealed in a session before it ends. The sender looks at the
	// number before it seals the packets of a message, and the guard's goroutine seals beside the sender.
	// So the limit is lower than that of the key: by two batches of the sender.
	mostSealed = auth.MostSealed - 2*sendBatch
)

// Budgets of the answering end: for known addresses, which have paths or lines in the file of peers; for
// strangers, all together; and for each source. A handshake costs 0.15 ms, a cookie 5 us.
const (
	answersKnown     = 1000 // handshakes in a second
	answersStrangers = 100
	answersEach      = 20
	cookiesKnown     = 10000 // cookies in a second
	cookiesStrangers = 1000
	pendingKnown     = 1024 // answers that wait for message 3
	pendingStrangers = 64
	pendingEach      = 4
)

// Places of the two kinds of addresses in arrays of budgets, and of what was spent.
const (
	ofStrangers = 0
	ofKnown     = 1
)

var (
	mostAnswers      = [2]int{ofStrangers: answersStrangers, ofKnown: answersKnown}
	mostCookiesGiven = [2]int{ofStrangers: cookiesStrangers, ofKnown: cookiesKnown}
	mostPending      = [2]int{ofStrangers: pendingStrangers, ofKnown: pendingKnown}
)

// budgetOf returns the place of an address in arrays of budgets.
func budgetOf(known bool) int {
	if known {
		return ofKnown
	}
	return ofStrangers
}
