//go:build linux && (amd64 || arm64)

package exchange

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/nicless/nicless"
)

// A card is what a poster announces. One that asks looks for one that answers, and names it in its own
// card. That one connects, and names the other in turn. Then the first connects.
type card struct {
	Role       string // ask or answer
	Name       string
	For        string // the poster that this one has chosen, as self returns it; "": none yet
	Descriptor nicless.Descriptor
}

func self(d nicless.Descriptor) string { return fmt.Sprintf("%016x/%06x", d.Device, d.QPN) }

// connect finds the other poster, and connects.
func (p *poster) connect(role, name string, timeout int, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	mine := card{Role: role, Name: name, Descriptor: p.qp.Descriptor(p.mr.Remote("memory"))}
	me := self(mine.Descriptor)
	var theirs card
	connect := func() (err error) {
		p.theirs, err = theirs.Descriptor.Find("memory")
		if err != nil {
			return err
		}
		for {
			err = p.qp.Connect(theirs.Descriptor, nicless.Connection{Timeout: timeout})
			// An emulated processor may open a link more slowly than an engine waits for it.
			if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "the link is being opened") {
				return err
			}
		}
	}
	var err error
	if role == "ask" {
		if theirs, err = p.await(ctx, &mine, "answer", ""); err == nil {
			mine.For = self(theirs.Descriptor)
			if err = p.announce(&mine); err == nil {
				theirs, err = p.await(ctx, &mine, "answer", me)
			}
		}
		if err != nil {
			return err
		}
		return connect()
	}
	if err := p.announce(&mine); err != nil {
		return err
	}
	if theirs, err = p.await(ctx, &mine, "ask", me); err != nil {
		return err
	}
	if err := connect(); err != nil {
		return err
	}
	mine.For = self(theirs.Descriptor)
	return p.announce(&mine)
}

func (p *poster) announce(c *card) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return p.nic.Announce(text)
}

// await waits for the card of a poster with this role and the same name that has chosen this one, or,
// if chosen is empty, none.
func (p *poster) await(ctx context.Context, mine *card, role, chosen string) (card, error) {
	for {
		all, err := p.nic.Announcements()
		if err != nil {
			return card{}, err
		}
		for _, a := range all {
			var c card // what others announce can be anything
			if json.Unmarshal(a.Value, &c) == nil && c.Role == role && c.Name == mine.Name &&
				c.For == chosen && c.Descriptor.Device == a.Device {
				return c, nil
			}
		}
		if _, err := p.nic.NextEvent(ctx); err != nil {
			return card{}, fmt.Errorf("no poster that is to %s under the name %q among %d announcements: %w", role, mine.Name, len(all), err)
		}
	}
}
