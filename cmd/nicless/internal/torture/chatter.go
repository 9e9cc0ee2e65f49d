package torture

import (
	"strings"

	"github.com/nicless/nicless/internal/control"
)

// chatter connects and disconnects as fast as it can, with all that the engine might
// want to tell: the supervisor sees how much it logs.
func (v *villain) chatter() error {
	for range 500 {
		c, err := dialRaw(v.spec.Socket)
		if err != nil {
			return err
		}
		switch v.r.IntN(4) {
		case 0: // gone at once
		case 1: // with a long name
			h := &control.Hello{Magic: control.Magic, Major: control.Major, Name: strings.Repeat("chatter\n", 1+v.r.IntN(50))}
			err = c.call(control.OpHello, h, new(control.Welcome))
		case 2: // of no protocol
			_ = c.send([]byte("chatter"))
			_, _, err = c.receive()
		case 3: // of another version
			err = c.call(control.OpHello, &control.Hello{Magic: control.Magic, Major: 99, Name: "chatter"}, new(control.Welcome))
		}
		c.close()
		if isTimeout(err) {
			return err
		}
		v.tell(1)
	}
	return nil
}
