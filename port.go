package nicless

import "github.com/nicless/nicless/internal/control"

// A Port is the state of the port of the engine's device, as Context.Port returns it.
type Port struct {
	// Active is false while the port is down: then no request gets an answer. Requests of a reliable queue
	// pair are tried again, and fail when its retries have run out; other messages are lost.
	Active bool

	GID     [16]byte // the GID of the context's datagrams
	Changes uint32   // how often the GID has changed since the engine began
}

// minorPort is the minor version of the protocol that has OpQueryPort.
const minorPort = 6

// Port returns the state of the port. When it changes, NextEvent returns an event of kind EventPortError,
// EventPortActive or EventGIDChange. Port returns an error if the engine's protocol is older than 2.6.
func (c *Context) Port() (p Port, err error) {
	const what = "query port"
	if err := c.err(); err != nil {
		return p, wrap(what, err)
	}
	if c.limits.Minor < minorPort {
		return p, wrap(what, control.Errorf(control.CodeUnsupported, "the engine's protocol is 2.%d; 2.%d is needed",
			c.limits.Minor, minorPort))
	}
	var m control.Port
	if _, err := c.call(what, control.OpQueryPort, &control.Empty{}, &m); err != nil {
		return p, err
	}
	return Port{Active: m.State == control.PortActive, GID: m.GID, Changes: m.Changes}, nil
}
