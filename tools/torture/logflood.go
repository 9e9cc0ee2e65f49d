//go:build linux && (amd64 || arm64)

package torture

import (
	"strings"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/verdict"
)

// floodLog connects and disconnects as fast as it can, in every way that the engine might log.
// The supervisor checks how much the engine logs.
func (v *hostile) floodLog() error {
	for range 500 {
		c, err := v.dial()
		if err != nil {
			return err
		}
		switch v.r.IntN(4) {
		case 0: // disconnect at once
		case 1: // a long name
			h := &control.Hello{Magic: control.Magic, Major: control.Major,
				Name: strings.Repeat("flood\n", 1+v.r.IntN(50))}
			err = c.call(control.OpHello, h, new(control.Welcome))
		case 2: // not the protocol
			_ = c.send([]byte("flood"))
			_, _, err = c.receive()
		case 3: // another version
			err = c.call(control.OpHello, &control.Hello{Magic: control.Magic, Major: 99, Name: "flood"},
				new(control.Welcome))
		}
		c.close()
		if verdict.IsTimeout(err) {
			return err
		}
		v.did(1)
	}
	return nil
}
