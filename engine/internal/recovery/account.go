//go:build linux && (amd64 || arm64)

package recovery

// An Account is what the queue pairs of one user keep in a store, and what the user has been charged for
// that. A user may keep no more than it leaves free, as with the other resources (package quota).
type Account struct {
	User uint32

	// try charges the user that many bytes, or refunds them if the number is below 0. It does not wait:
	// false says that nothing was done, because the user may have no more, or because it would have to wait.
	try func(bytes int) bool

	wires int  // number of queue pairs
	taken int  // pieces in use
	paid  int  // pieces for which the user is charged
	short bool // the user could not have the portion that it needed last
}

const (
	// portion is how many pieces are charged together, so that a charge is rare: 256 KiB of payload.
	portion = 256

	// PortionCost is what a portion costs, in bytes, with the entries of its pieces in Store.packets.
	PortionCost = portion * (piece + 128)
)

// take charges for n more pieces. It returns false if the user may not have them.
func (a *Account) take(n int) bool {
	if a == nil {
		return true
	}
	for a.taken+n > a.paid {
		a.short = !a.try(PortionCost)
		if a.short {
			return false
		}
		a.paid += portion
	}
	a.taken += n
	return true
}

// give is called when n pieces are free again. A portion stays charged, so that a queue pair that loses
// packets all the time charges and refunds nothing each time.
func (a *Account) give(n int) {
	if a == nil {
		return
	}
	a.taken -= n
	if a.paid-a.taken >= 2*portion && a.try(-PortionCost) {
		a.paid -= portion
	}
}

// most returns how many more pieces the user may have if it can pay, of left that are free for all users.
func (a *Account) most(left int) int {
	if a == nil {
		return left
	}
	return (left - a.taken) / 2
}

// room returns how many more pieces the user has, as far as is known: one that could not pay last may be able
// to by now, which only take finds out.
func (a *Account) room(left int) int {
	if a != nil && a.short {
		return min(a.paid-a.taken, a.most(left))
	}
	return a.most(left)
}

// Charge makes what s keeps count for a user, from now on and until Leave or another Charge. Those charge and
// refund what is owed then: a number of bytes, for another user. Stretches was called before. The store is
// that of the port on which the queue pair was connected, also while its wire is cut.
func (s *State) Charge(user uint32, try func(bytes int) bool) (from uint32, owed int) {
	if s == nil {
		return 0, 0
	}
	store := s.store
	n := s.Early.pieces(store) + s.Kept.pieces(store)
	s.Early.account.give(n)
	from, owed = s.leaveAccount()
	a := store.accounts[user]
	if a == nil {
		a = &Account{User: user, try: try}
		if store.accounts == nil {
			store.accounts = make(map[uint32]*Account)
		}
		store.accounts[user] = a
	}
	a.wires++
	a.taken += n // charged with the next packet, because they are in use already
	s.Early.account, s.Kept.account = a, a
	return from, owed
}

// leaveAccount ends what Charge has begun. The caller refunds what is owed to the user from.
func (s *State) leaveAccount() (from uint32, owed int) {
	a := s.Early.account
	if a == nil {
		return 0, 0
	}
	s.Early.account, s.Kept.account = nil, nil
	a.wires--
	if a.wires > 0 {
		return a.User, 0
	}
	delete(s.store.accounts, a.User)
	return a.User, a.paid / portion * PortionCost
}
