//go:build linux && (amd64 || arm64)

package verbs

import (
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/unixsock"
	"github.com/nicless/nicless/verbs/internal/abi"
	"golang.org/x/sys/unix"
)

// A channel is a completion channel: a descriptor to which the device sends completion
// events directly. A channel has no handle; a program names it by its descriptor. The
// channel ends when the program's last copy of the descriptor is closed.
type channel struct {
	id     uint32
	users  int      // number of CQs
	reader nic.File // a copy of the program's end, kept while users is not 0
}

// createChannel serves CREATE_COMP_CHANNEL. The request is struct
// ib_uverbs_create_comp_channel, and the response has a descriptor.
func createChannel(c *call, _ []byte) error {
	x := c.x
	x.endClosedChannels()
	if err := x.charge(channelCost); err != nil {
		return err
	}
	m, r, err := x.request(control.OpCreateChannel, &control.Empty{})
	if err != nil {
		x.refund(channelCost)
		return err
	}
	id := m.(*control.Channel).ID
	cookie, err := cookieOf(r.Events)
	if err == nil {
		// Programs expect a descriptor that blocks.
		err = unixsock.Control(r.Events, func(fd int) error { return unix.SetNonblock(fd, false) })
	}
	if err != nil {
		_ = r.Events.Close()
		_ = x.command(control.OpDestroyChannel, &control.Channel{ID: id})
		x.refund(channelCost)
		return err
	}
	x.channels[cookie] = &channel{id: id}
	c.putFileInside(abi.AttrCoreOut, r.Events, abi.CreateCompChannelRespSize)
	return nil
}

// endClosedChannels ends channels that the program has closed.
func (x *uctx) endClosedChannels() {
	for _, id := range x.client.Forsaken() {
		for cookie, ch := range x.channels {
			if ch.id == id && x.command(control.OpDestroyChannel, &control.Channel{ID: id}) == nil {
				delete(x.channels, cookie)
				x.refund(channelCost)
			}
		}
	}
}

// channel returns the channel that an attribute names, nil if there is no such attribute.
// It keeps the copy of the channel's descriptor that the shim has sent.
func (c *call) channel(id uint16) (*channel, error) {
	f, err := c.file(id)
	if f == nil || err != nil {
		return nil, err
	}
	cookie, err := cookieOf(f)
	if err != nil {
		return nil, refuse(eBADF, "channel: %v", err)
	}
	ch := c.x.channels[cookie]
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

// leave is called when a CQ of the channel is destroyed.
func (ch *channel) leave() {
	ch.users--
	if ch.users == 0 {
		ch.drop()
	}
}

// drop closes the copy of the descriptor if no CQ uses the channel.
func (ch *channel) drop() {
	if ch != nil && ch.users == 0 && ch.reader != nil {
		_ = ch.reader.Close()
		ch.reader = nil
	}
}
