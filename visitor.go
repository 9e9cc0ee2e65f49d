//go:build linux && (amd64 || arm64)

package nicless

import (
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
)

// A visitor is a second client of an engine in this process, which ends before the engine does.
type visitor struct {
	*embedded
	driver *driver // drives the engine; nil: a thread runs it
}

// companion implements watchable: a visitor watches all clients, which are this one.
func (d *embedded) companion() (device, WatchFilter, error) { return d.visit(nil) }

func (d *embedded) leave() error { return d.client.Close() }

func (d *embedded) visit(drives *driver) (device, WatchFilter, error) {
	c, err := nic.Of(d.engine).AttachLocal("sanitizer", nil)
	if err != nil {
		return nil, WatchFilter{}, err
	}
	v := &visitor{embedded: &embedded{engine: d.engine, client: c, done: d.done}, driver: drives}
	return v, WatchFilter{All: true}, nil
}

// companion implements watchable: all clients of a device for tests are of the test.
func (g *guest) companion() (device, WatchFilter, error) { return g.visit(g.driver) }

func (g *guest) leave() error { return g.Close() }

func (v *visitor) drivenBy() *driver { return v.driver }

func (v *visitor) Call(op control.Op, req, ans control.Message) (control.Reply, error) {
	if v.driver != nil {
		v.driver.hold() // time may have passed since the last step
	}
	return v.embedded.Call(op, req, ans)
}

// Close ends the client. The engine goes on.
func (v *visitor) Close() error { return v.client.Close() }
