package verbs

import (
	"os"

	"github.com/nicless/nicless/internal/control"
	"golang.org/x/sys/unix"
)

// A channel tells a program of completions: the device sends straight to it. It
// has no handle; it is named by its descriptor, and ends when that is closed.
type channel struct {
	id     uint32
	users  int      // CQs
	reader *os.File // a copy of the program's end, while there are users
}

// createChannel: response u64. The answer is a descriptor.
func createChannel(c *call, _ []byte) error {
	x := c.x
	x.bury()
	if err := x.may(); err != nil {
		return err
	}
	m, r, err := x.ask(control.OpCreateChannel, &control.Empty{})
	if err != nil {
		x.mayNot()
		return err
	}
	id := m.(*control.Channel).ID
	inode, err := inodeOf(r.Events)
	if err == nil {
		err = withFD(r.Events, func(fd int) error { return unix.SetNonblock(fd, false) }) // as programs expect
	}
	if err != nil {
		_ = r.Events.Close()
		_ = x.tell(control.OpDestroyChannel, &control.Channel{ID: id})
		x.mayNot()
		return err
	}
	x.channels[inode] = &channel{id: id}
	c.putFileInside(1, r.Events, 4)
	return nil
}

// bury ends channels that the program has closed.
func (x *uctx) bury() {
	for _, id := range x.client.Forsaken() {
		for inode, ch := range x.channels {
			if ch.id == id && x.tell(control.OpDestroyChannel, &control.Channel{ID: id}) == nil {
				delete(x.channels, inode)
				x.mayNot()
			}
		}
	}
}

// channel returns the channel that an attribute names, and keeps a copy of its
// descriptor; nil if there is no such attribute.
func (c *call) channel(id uint16) (*channel, error) {
	f, err := c.file(id)
	if f == nil || err != nil {
		return nil, err
	}
	inode, err := inodeOf(f)
	if err != nil {
		return nil, refuse(eBADF, "channel: %v", err)
	}
	ch := c.x.channels[inode]
	if ch == nil {
		return nil, refuse(eBADF, "channel: the descriptor is no completion channel of this context")
	}
	if ch.reader == nil {
		c.keep(f)
		ch.reader = f
	}
	return ch, nil
}

func (ch *channel) use() { ch.users++ }

// leave lets go of a channel.
func (ch *channel) leave() {
	if ch.users--; ch.users == 0 {
		ch.drop()
	}
}

// drop closes the copy of the descriptor if nobody uses it.
func (ch *channel) drop() {
	if ch != nil && ch.users == 0 && ch.reader != nil {
		_ = ch.reader.Close()
		ch.reader = nil
	}
}
