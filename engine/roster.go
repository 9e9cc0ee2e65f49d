//go:build linux && (amd64 || arm64)

package engine

import "slices"

// A roster lists those clients of a shard that have objects of one kind, for example stalled
// queues. The clients take turns, so the objects of one client, however many they are, do not
// keep the shard from the objects of another.
type roster struct {
	kind    rosterKind
	clients []*client
	next    int // index in clients of the client whose turn it is
	used    int // how many of its objects this client has got in this turn
}

type rosterKind uint8

const (
	ofClients rosterKind = iota // all clients of the shard
	ofWatches                   // clients with queue pairs that are not in RST
	ofStalls                    // clients with stalled queues
	ofArms                      // clients with CQs that can be armed
	rosterKinds
)

// add puts c on the roster, unless it is on it.
func (r *roster) add(c *client) {
	if c.seats[r.kind] == 0 {
		r.clients = append(r.clients, c)
		c.seats[r.kind] = len(r.clients)
	}
}

// remove takes c off the roster, if it is on it. The last client of the roster takes its place.
func (r *roster) remove(c *client) {
	if c.seats[r.kind] == 0 {
		return
	}
	at, last := c.seats[r.kind]-1, len(r.clients)-1
	if at == r.next {
		r.used = 0
	}
	r.clients[at] = r.clients[last]
	r.clients[at].seats[r.kind] = at + 1
	r.clients[last], r.clients = nil, r.clients[:last]
	c.seats[r.kind] = 0
}

// current returns the client whose turn it is. The roster is not empty.
func (r *roster) current() *client {
	if r.next >= len(r.clients) {
		r.next, r.used = 0, 0
	}
	return r.clients[r.next]
}

// use returns how many objects the current client gets now, of a turn of so many: at most most.
// After the last one the next client has its turn.
func (r *roster) use(turn, most int) (n int) {
	n = min(most, max(turn-r.used, 1))
	if r.used += n; r.used >= turn {
		r.next++
		r.used = 0
	}
	return n
}

// grow makes room for n clients, so that add does not allocate.
func (r *roster) grow(n int) { r.clients = slices.Grow(r.clients, max(n-len(r.clients), 0)) }

// turnShare bounds the turn of a client that has many objects: it gets a turnShare-th of them.
// So no client needs more than about turnShare turns for all its objects, and the client after
// it waits for a turnShare-th of a round through all objects of all clients.
const turnShare = 64

// turnOf returns how many of its n objects a client gets in one turn. It gets at least the
// given number, if it has so many.
func turnOf(n, least int) int { return min(n, max(least, n/turnShare)) }

// round returns how many objects, at most, have their turn until each object of each client has
// had one. n returns how many objects a client has, and least is the argument of turnOf.
func (r *roster) round(n func(*client) int, least int) int {
	most, lap := 0, 0
	for _, c := range r.clients {
		turn := turnOf(n(c), least)
		most, lap = max(most, (n(c)+turn-1)/turn), lap+turn
	}
	return most * lap
}
