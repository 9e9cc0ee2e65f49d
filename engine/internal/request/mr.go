//go:build linux && (amd64 || arm64)

package request

import (
	"slices"

	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/process"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/trace"
)

// Requests that make and destroy keys: of registered memory, of windows and of lists. UMRs change
// keys in execution/umr.go.

func regMR(c *Client, m *control.MR, source object.RequestMemory, _ *control.Reply) (control.Message, error) {
	p, ok := c.PDs[m.PDN]
	if !ok {
		return nil, object.NotFound("PD", m.PDN)
	}
	k := &object.Mkey{Access: m.Access, PD: p, Client: c.Client}
	if err := c.place(k, m.Addr, m.Length, m.IOVA, source); err != nil {
		return nil, err
	}
	if err := c.addKey(k); err != nil {
		return nil, err
	}
	k.Region.Users++
	return &control.Key{Key: k.Key}, nil
}

// place sets the memory of k to the n bytes that begin at address addr in the client. In work
// requests the addresses of these bytes begin at iova. source says whether the memory is in the
// client's process and the device has not mapped it. place also checks the rights in
// k.Access. If it returns an error, k is unusable.
func (c *Client) place(k *object.Mkey, addr, n, iova uint64, source object.RequestMemory) error {
	if n == 0 && !source.InProcess {
		return control.Errorf(control.CodeInvalid, "memory region of 0 bytes; at least 1 is needed")
	}
	if err := k.CheckRights(); err != nil {
		return err
	}
	if k.Access&control.AccessZeroBased != 0 {
		iova = 0
	}
	if n > 0 && iova+n-1 < iova {
		return control.Errorf(control.CodeInvalid, "memory region: %d bytes from iova %#x pass the end of the address space", n, iova)
	}
	r, mem, err := c.At("memory region", addr, n)
	var p *process.Process
	if (err != nil || source.InProcess) && c.Process != nil {
		p = c.Process
		r, mem, err = c.ProcessRegion, nil, nil
		if !source.OnDemand {
			err = p.CheckRange(addr, max(n, 1))
		}
	}
	if err != nil {
		return err
	}
	k.Region, k.Mem, k.Process = r, mem, p
	k.From, k.Base, k.Size = addr, iova, n
	return nil
}

// addKey gives k a key and adds it to the tables.
func (c *Client) addKey(k *object.Mkey) error {
	if _, err := c.take("keys", len(c.MRs), c.Device.Settings.Limits.MRs, k.Cost()); err != nil {
		return err
	}
	c.Device.Keys.Add(k)
	c.MRs[k.Key>>8] = k
	k.Domain().Users++
	c.Device.recordKey(k, c.Watched, trace.KeyMade)
	return nil
}

func allocMW(c *Client, m *control.MW, _ object.RequestMemory, _ *control.Reply) (control.Message, error) {
	p, ok := c.PDs[m.PDN]
	switch {
	case !ok:
		return nil, object.NotFound("PD", m.PDN)
	case m.Kind != 1 && m.Kind != 2:
		return nil, control.Errorf(control.CodeInvalid, "memory window of type %d; 1 and 2 are possible", m.Kind)
	}
	k := &object.Mkey{Client: c.Client, Free: true, Window: &object.Window{Kind: m.Kind, PD: p}}
	if err := c.addKey(k); err != nil {
		return nil, err
	}
	return &control.Key{Key: k.Key}, nil
}

func createMkey(c *Client, m *control.Mkey, _ object.RequestMemory,
	_ *control.Reply) (control.Message, error) {
	p, ok := c.PDs[m.PDN]
	switch {
	case !ok:
		return nil, object.NotFound("PD", m.PDN)
	case m.Entries < 1 || m.Entries > object.MaxListEntries:
		return nil, control.Errorf(control.CodeInvalid, "key for a list of %d entries; 1 to %d are possible", m.Entries, object.MaxListEntries)
	}
	k := &object.Mkey{Client: c.Client, PD: p, Free: true, Room: int(m.Entries)}
	if err := c.addKey(k); err != nil {
		return nil, err
	}
	k.List = make([]object.Run, 0, m.Entries) // so that no work request allocates it
	if c.Hosted.SameKeys {
		c.Device.Keys.Rekey(k, k.Key&^0xff) // a program that uses verbs knows only the index
	}
	return &control.Key{Key: k.Key}, nil
}

// CompleteList completes a list key that createMkey has made.
func (c *Client) CompleteList(key uint32, d nic.ListKey) (err error) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if c.Closed {
		return object.ErrClosed
	}
	c.Device.Do(func() {
		k := c.MRs[key>>8]
		if k == nil || k.Room == 0 || !k.Free {
			err = object.NotFound("free list key", key)
			return
		}
		if err = fillList(k, c.MRs, d); err == nil {
			k.Inval = d.Invalidate
			c.Device.recordKey(k, c.Watched, trace.KeyChanged)
		}
	})
	return err
}

// cut returns a list without what it has before and after the registered memory that its first and its
// last entry name. Nobody can access that. UCX makes keys for atomics whose list begins and ends at
// multiples of the longest atomic, so a little outside of the memory. fillList has checked the list.
func cut(keys map[uint32]*object.Mkey, d nic.ListKey) nic.ListKey {
	registered := func(key uint32) *object.Mkey {
		if m := keys[key>>8]; m != nil && m.Window == nil && m.Room == 0 {
			return m
		}
		return nil
	}
	d.Entries = slices.Clone(d.Entries)
	first, last := &d.Entries[0], &d.Entries[len(d.Entries)-1]
	if m := registered(first.Key); m != nil && first.Addr < m.Base {
		if n := m.Base - first.Addr; n < min(first.N, d.Length) {
			first.Addr, first.N = m.Base, first.N-n
			d.Start, d.Length = d.Start+n, d.Length-n
		}
	}
	if m := registered(last.Key); m != nil && last.Addr-m.Base < m.Size {
		if room := m.Size - (last.Addr - m.Base); room < last.N {
			last.N = room
			var total uint64
			for _, e := range d.Entries {
				total += e.N
			}
			d.Length = min(d.Length, total)
		}
	}
	return d
}

// fillList fills a free list key with entries, as a UMR does (planList in umr/plan.go). Without
// entries it does nothing.
func fillList(k *object.Mkey, keys map[uint32]*object.Mkey, d nic.ListKey) error {
	if len(d.Entries) == 0 {
		return nil
	}
	var total uint64
	for _, e := range d.Entries {
		if e.N == 0 || total+e.N < total {
			return control.Errorf(control.CodeInvalid, "list key: an entry of %d bytes after %d; 1 byte or more, and less than 2^64 together, are possible", e.N, total)
		}
		total += e.N
	}
	switch {
	case len(d.Entries) > k.Room:
		return control.Errorf(control.CodeInvalid, "list key: %d entries; the key was made for %d", len(d.Entries), k.Room)
	case d.Length > total:
		return control.Errorf(control.CodeInvalid, "list key of %d bytes; its entries together have %d", d.Length, total)
	case d.Length != 0 && d.Start+d.Length-1 < d.Start:
		return control.Errorf(control.CodeInvalid, "list key of %d bytes at %#x: it passes the end of the address space", d.Length, d.Start)
	}
	list := object.Mkey{Access: d.Access}
	if err := list.CheckRights(); err != nil {
		return err
	}
	d, total = cut(keys, d), 0
	for _, e := range d.Entries {
		total += e.N
		k.List = append(k.List, object.Run{Key: e.Key, Addr: e.Addr, N: e.N})
	}
	k.Access, k.Base, k.Size, k.Free = d.Access, d.Start, d.Length, false
	k.PerRound, k.Rounds = total, 1
	return nil
}

// key returns the client's mkey with the index of this key. For registered memory the
// variant must match too. For windows and lists it need not, because work requests change
// their variant, and a program that destroys a window or a list may not know its present
// variant.
func (c *Client) key(key uint32) (*object.Mkey, error) {
	k := c.MRs[key>>8]
	if k == nil || k.Region != nil && k.Key != key {
		return nil, object.NotFound("key", key)
	}
	return k, nil
}

func deregMR(c *Client, m *control.Key, _ object.RequestMemory, _ *control.Reply) (control.Message, error) {
	k, err := c.key(m.Key)
	if err != nil {
		return nil, err
	}
	if k.Windows > 0 {
		return nil, object.Busy("memory region with key", m.Key, k.Windows, "bound memory window",
			"bound memory windows")
	}
	c.removeKey(k)
	return &control.Empty{}, nil
}

// removeKey removes a key from the device. A transfer that has moved part of the key's
// memory is checked again and then finds no such key. No transfer touches the memory
// afterwards.
func (c *Client) removeKey(k *object.Mkey) {
	sh := c.Loop()
	c.Device.recordKey(k, c.Watched, trace.KeyGone)
	sh.InvalidateJobs(k)
	if k.Window != nil {
		k.Window.Bind(nil)
	}
	sh.Keys.Remove(k.Key)
	k.Client.Refund(k.Cost())
	delete(k.Client.MRs, k.Key>>8)
	k.Domain().Users--
	if k.Region != nil {
		k.Region.Users--
	}
}

func reregMR(c *Client, m *control.ReregMR, source object.RequestMemory,
	_ *control.Reply) (control.Message, error) {
	k, err := c.key(m.Key)
	switch {
	case err != nil:
		return nil, err
	case k.Region == nil:
		return nil, control.Errorf(control.CodeInvalid, "key %#08x is not of registered memory", m.Key)
	case m.What == 0 || m.What&^(control.ReregRange|control.ReregPD|control.ReregAccess) != 0:
		return nil, control.Errorf(control.CodeInvalid, "memory region: change of %#x; bits 0 to 2 are known, and one is needed", m.What)
	}
	if k.Windows > 0 {
		return nil, object.Busy("memory region with key", m.Key, k.Windows, "bound memory window",
			"bound memory windows")
	}
	// A changed copy is checked like a new key, and then replaces the old contents of k.
	next := *k
	if m.What&control.ReregPD != 0 {
		p, ok := c.PDs[m.PDN]
		if !ok {
			return nil, object.NotFound("PD", m.PDN)
		}
		next.PD = p
	}
	if m.What&control.ReregAccess != 0 {
		next.Access = m.Access
	}
	if m.What&control.ReregRange != 0 {
		err = c.place(&next, m.Addr, m.Length, m.IOVA, source)
	} else { // the key keeps its memory, whatever the client has at its address now
		err = next.CheckRights()
		if next.Access&control.AccessZeroBased != 0 {
			next.Base = 0
		}
	}
	if err != nil {
		return nil, err
	}
	c.Loop().InvalidateJobs(k)
	k.PD.Users--
	k.Region.Users--
	next.PD.Users++
	next.Region.Users++
	if !c.Hosted.SameKeys {
		c.Device.Keys.Rekey(k, k.Key&^0xff|(k.Key+1)&0xff)
	}
	next.Key, next.Changed = k.Key, k.Changed
	*k = next
	c.Device.recordKey(k, c.Watched, trace.KeyChanged)
	return &control.Key{Key: k.Key}, nil
}
