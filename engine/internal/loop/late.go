//go:build linux && (amd64 || arm64)

package loop

import "github.com/nicless/nicless/engine/internal/object"

// Events about objects that found the client's socket full (eventsocket.Late).

// lateTurn is how many of them a client gets sent in a turn, and how many clients have a turn in a round.
// Each event is a system call.
const lateTurn = 16

// sendLate gives the next clients with late events a turn, and returns how many events it has sent.
func sendLate(sh *object.Shard) (done int) {
	late := &sh.Arm.Late
	for range min(lateTurn, len(late.Clients)) {
		if len(late.Clients) == 0 || done >= lateTurn {
			break
		}
		c := late.Current()
		late.Use(1, 1)
		done += sendLateOf(sh, c)
	}
	return done
}

// sendLateOf gives c a turn, unless its socket rests, and returns how many events it has sent.
func sendLateOf(sh *object.Shard, c *object.Client) (done int) {
	if c.Late.Len() == 0 || c.Events == nil || c.Events.Room.Rests(sh.Now()) {
		return 0
	}
	for done < lateTurn && c.Late.Len() > 0 {
		ev := c.Late.First()
		if !c.TryEvent(ev) {
			break
		}
		c.Late.Remove(ev)
		done++
	}
	if c.Late.Len() == 0 {
		sh.Arm.Late.Remove(c)
	}
	return done
}

// lateUntil returns the device clock at which late events of c are tried again; the largest number if there
// are none.
func lateUntil(c *object.Client) uint64 {
	if c.Late.Len() == 0 || c.Events == nil {
		return ^uint64(0)
	}
	return c.Events.Room.Until()
}
