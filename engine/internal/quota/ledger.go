//go:build linux && (amd64 || arm64)

package quota

import (
	"fmt"
	"io/fs"
	"sync"

	"github.com/nicless/nicless/internal/control"
)

// A Ledger counts what users have. Safe for concurrent use: the engine's thread and the
// goroutines of connections charge and refund.
type Ledger struct {
	owners *owners

	mu     sync.Mutex
	limits Charge               // what all users together may have
	source [numResources]string // what each limit comes from, in words
	taken  Charge               // what all users together have, without debts
	users  map[uint32]*Charge   // what users have, without debts, by the uid that pays
	debts  map[uint32]int       // debts: descriptors beyond users' parts, by the uid that pays
	others map[uint32]*other    // uids for which another uid pays
}

// An other is a uid for which another uid pays. The entry is kept as long as something is
// charged for the uid. So refunds go to the user that was charged, even if /etc/subuid has
// changed since.
type other struct {
	payer uint32
	has   Charge
}

// New returns a Ledger with the limits of this process. root is the root of the file system, os.DirFS("/"),
// or a test's own.
func New(root fs.FS) *Ledger {
	l := &Ledger{owners: systemOwners(), users: make(map[uint32]*Charge), debts: make(map[uint32]int),
		others: make(map[uint32]*other)}
	l.limits, l.source = systemLimits(root)
	return l
}

// Take charges a user, or charges nothing and returns an error that says what the user
// cannot have. The error is a *control.Error with CodeLimit.
func (l *Ledger) Take(uid uint32, c Charge) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	payer := l.payerOf(uid)
	has := l.has(payer)
	for r, n := range c {
		if free := l.limits[r] - l.taken[r]; n != 0 && has[r]+n > free-n {
			return control.Errorf(control.CodeLimit, "%s has %d %s of the device's process and asks for %d more; %d of %d are free, and a user may have no more than it leaves free (%s)",
				describe(uid, payer), has[r], names[r], n, free, l.limits[r], l.source[r])
		}
	}
	l.add(uid, payer, c, 1)
	return nil
}

// Try is Take for a user to whom something is charged already, and who is its own payer (Payer). A charge may
// be below 0. It does not wait, and makes no error: it charges nothing and returns false if the user cannot
// have that, or while another goroutine uses the ledger.
func (l *Ledger) Try(payer uint32, c Charge) bool {
	if !l.mu.TryLock() {
		return false
	}
	defer l.mu.Unlock()
	if l.users[payer] == nil {
		return false
	}
	has := l.has(payer)
	for r, n := range c {
		if n > 0 && has[r]+n > l.limits[r]-l.taken[r]-n {
			return false
		}
	}
	l.add(payer, payer, c, 1)
	return true
}

// Incur charges a user for what the user has already. Descriptors beyond the user's part
// become a debt. The charge is made in any case. An error says that the user now has so much
// more than its part that it should get no service. A small excess is no error, so that a
// user at its limit may still make a request that brings a descriptor for a moment.
func (l *Ledger) Incur(uid uint32, c Charge) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	payer := l.payerOf(uid)
	limit := l.limits[Descriptors]
	if n := c[Descriptors]; n > 0 && l.has(payer)[Descriptors]+n > limit-l.taken[Descriptors]-n {
		l.debts[payer] += n
		l.addOther(uid, payer, Charge{Descriptors: n}, 1)
		c[Descriptors] = 0
	}
	l.add(uid, payer, c, 1)
	if has, free := l.has(payer)[Descriptors], limit-l.taken[Descriptors]; has > free+limit/16 {
		return fmt.Errorf("%s has %d descriptors, with those that wait to be closed; %d of %d are free, and a user may have no more than it leaves free (%s)",
			describe(uid, payer), has, free, limit, l.source[Descriptors])
	}
	return nil
}

// describe returns the name of a user for messages. If the user pays for another uid, the
// name includes that uid.
func describe(uid, payer uint32) string {
	if uid == payer {
		return fmt.Sprintf("user %d", uid)
	}
	return fmt.Sprintf("user %d, to whom %s gives uid %d,", payer, subuidPath, uid)
}

// Refund takes back a charge. It reduces the user's debt first.
func (l *Ledger) Refund(uid uint32, c Charge) {
	l.mu.Lock()
	defer l.mu.Unlock()
	payer := l.payerOf(uid)
	if n := min(c[Descriptors], l.debts[payer]); n > 0 {
		l.debts[payer] -= n
		if l.debts[payer] == 0 {
			delete(l.debts, payer)
		}
		l.addOther(uid, payer, Charge{Descriptors: n}, -1)
		c[Descriptors] -= n
	}
	l.add(uid, payer, c, -1)
}

// Payer returns the uid of the user that pays for a uid.
func (l *Ledger) Payer(uid uint32) uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.payerOf(uid)
}

// Limit returns how much of a resource all users together may have.
func (l *Ledger) Limit(r Resource) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.limits[r]
}

// Taken returns what all users together have, without debts.
func (l *Ledger) Taken() Charge {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.taken
}

// Has returns what a user has, with debts.
func (l *Ledger) Has(uid uint32) Charge {
	l.mu.Lock()
	defer l.mu.Unlock()
	payer := l.payerOf(uid)
	return l.has(payer)
}

// Users returns how many users have anything, apart from debts.
func (l *Ledger) Users() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.users)
}

// SetLimit sets a limit, and what it comes from. For tests.
func (l *Ledger) SetLimit(r Resource, limit int, source string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limits[r], l.source[r] = limit, source
}

// SetOwners makes the ledger read other files instead of /etc/subuid and /etc/passwd. For
// tests.
func (l *Ledger) SetOwners(subuid, passwd string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owners = &owners{subuid: subuid, passwd: passwd}
}

// has returns what a payer has, with debts.
func (l *Ledger) has(payer uint32) (c Charge) {
	if u := l.users[payer]; u != nil {
		c = *u
	}
	c[Descriptors] += l.debts[payer]
	return c
}

// payerOf returns the uid that pays for a uid. The caller holds the lock of l. As long as anything is
// charged for the uid, the payer does not change. Otherwise payerOf looks the payer up in the files of
// owners, and gives up the lock while it does that.
func (l *Ledger) payerOf(uid uint32) (payer uint32) {
	if payer, ok := l.known(uid); ok {
		return payer
	}
	o := l.owners
	l.mu.Unlock()
	payer = o.of(uid)
	l.mu.Lock()
	if known, ok := l.known(uid); ok {
		return known
	}
	return payer
}

// known returns the payer of a uid. ok is false if nothing is charged for the uid, so that its payer may
// change.
func (l *Ledger) known(uid uint32) (payer uint32, ok bool) {
	if o := l.others[uid]; o != nil {
		return o.payer, true
	}
	return uid, l.users[uid] != nil || l.debts[uid] != 0
}

// add adds a charge to what a payer and all users together have, or subtracts it if sign is
// -1.
func (l *Ledger) add(uid, payer uint32, c Charge, sign int) {
	u := l.users[payer]
	if u == nil {
		u = new(Charge)
		l.users[payer] = u
	}
	for r, n := range c {
		u[r] += sign * n
		l.taken[r] += sign * n
	}
	if *u == (Charge{}) {
		delete(l.users, payer)
	}
	l.addOther(uid, payer, c, sign)
}

// addOther notes a charge for a uid, if another uid pays for it.
func (l *Ledger) addOther(uid, payer uint32, c Charge, sign int) {
	if uid == payer {
		return
	}
	o := l.others[uid]
	if o == nil {
		o = &other{payer: payer}
		l.others[uid] = o
	}
	for r, n := range c {
		o.has[r] += sign * n
	}
	if o.has == (Charge{}) {
		delete(l.others, uid)
	}
}
