//go:build linux && (amd64 || arm64)

package object

import "slices"

// Add puts c on the roster, unless it is on it.
func (r *roster) Add(c *Client) {
	if c.seats[r.kind] == 0 {
		r.Clients = append(r.Clients, c)
		c.seats[r.kind] = len(r.Clients)
	}
}

// Remove takes c off the roster, if it is on it. The last client of the roster takes its place.
func (r *roster) Remove(c *Client) {
	if c.seats[r.kind] == 0 {
		return
	}
	at, last := c.seats[r.kind]-1, len(r.Clients)-1
	if at == r.next {
		r.used = 0
	}
	r.Clients[at] = r.Clients[last]
	r.Clients[at].seats[r.kind] = at + 1
	r.Clients[last], r.Clients = nil, r.Clients[:last]
	c.seats[r.kind] = 0
}

// Current returns the client whose turn it is. The roster is not empty.
func (r *roster) Current() *Client {
	if r.next >= len(r.Clients) {
		r.next, r.used = 0, 0
	}
	return r.Clients[r.next]
}

// Use returns how many objects the current client gets now: at most the parameter most, and no more than are
// left of its turn, which has turn objects. When the turn is used up, the next client has its turn.
func (r *roster) Use(turn, most int) (n int) {
	n = min(most, max(turn-r.used, 1))
	r.used += n
	if r.used >= turn {
		r.next++
		r.used = 0
	}
	return n
}

// Grow makes room for n clients, so that Add does not allocate.
func (r *roster) Grow(n int) { r.Clients = slices.Grow(r.Clients, max(n-len(r.Clients), 0)) }

// TurnShare bounds the turn of a client that has many objects: it gets a TurnShare-th of them.
// So no client needs more than about TurnShare turns for all its objects, and the client after
// it waits for a TurnShare-th of a round through all objects of all clients.
const TurnShare = 64

// TurnOf returns how many of its n objects a client gets in one turn. It gets at least the
// given number, if it has so many.
func TurnOf(n, least int) int { return min(n, max(least, n/TurnShare)) }

// Round returns how many objects, at most, have their turn until each object of each client has
// had one. n returns how many objects a client has, and least is the argument of TurnOf.
func (r *roster) Round(n func(*Client) int, least int) int {
	most, lap := 0, 0
	for _, c := range r.Clients {
		turn := TurnOf(n(c), least)
		most, lap = max(most, (n(c)+turn-1)/turn), lap+turn
	}
	return most * lap
}
