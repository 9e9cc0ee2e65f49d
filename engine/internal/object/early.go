//go:build linux && (amd64 || arm64)

package object

import "github.com/nicless/nicless/engine/internal/quota"

// ChargeEarly charges the user of q's client for the packets that come early on its wire, from now on.
func (sh *Shard) ChargeEarly(q *QP, w *Wire) {
	user := sh.Ledger.Payer(q.Client.UID)
	try := func(bytes int) bool { return sh.Ledger.Try(user, quota.Charge{quota.Memory: bytes}) }
	sh.RefundEarly(w.Recovery.Charge(user, try))
}

// RefundEarly refunds a user what it has paid for early packets.
func (sh *Shard) RefundEarly(user uint32, bytes int) {
	if bytes != 0 {
		sh.Ledger.Refund(user, quota.Charge{quota.Memory: bytes})
	}
}
