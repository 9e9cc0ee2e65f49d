//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/nicless/nicless/internal/control"
)

// Requests that make and destroy keys: of registered memory, of windows and of lists. What
// a UMR does with keys is in umr.go.

func (c *caller) regMR(m *control.MR, beside requestMemory, _ *control.Reply) (control.Message, error) {
	p, ok := c.pds[m.PDN]
	if !ok {
		return nil, notFound("PD", m.PDN)
	}
	k := &mkey{access: m.Access, pd: p, client: c.client}
	if err := c.place(k, m.Addr, m.Length, m.IOVA, beside); err != nil {
		return nil, err
	}
	if err := c.addKey(k); err != nil {
		return nil, err
	}
	k.region.users++
	return &control.Key{Key: k.key}, nil
}

// place sets the memory of k to the n bytes that begin at address addr in the client. In work
// requests the addresses of these bytes begin at iova. beside says whether the memory is in the
// client's process and the device has not mapped it. place also checks the rights in
// k.access. If it returns an error, k is unusable.
func (c *caller) place(k *mkey, addr, n, iova uint64, beside requestMemory) error {
	if n == 0 {
		return control.Errorf(control.CodeInvalid, "memory region of 0 bytes; at least 1 is needed")
	}
	if err := k.checkRights(); err != nil {
		return err
	}
	if k.access&control.AccessZeroBased != 0 {
		iova = 0
	}
	if iova+n-1 < iova {
		return control.Errorf(control.CodeInvalid, "memory region: %d bytes from iova %#x pass the end of the address space", n, iova)
	}
	r, mem, err := c.at("memory region", addr, n)
	var p *process
	if (err != nil || beside.inProcess) && c.process != nil {
		p = c.process
		r, mem, err = &p.all, nil, nil
		if !beside.onDemand {
			err = p.checkRange(addr, n)
		}
	}
	if err != nil {
		return err
	}
	k.region, k.mem, k.process = r, mem, p
	k.from, k.base, k.size = addr, iova, n
	return nil
}

// checkRights refuses rights of registered memory that make no sense.
func (k *mkey) checkRights() error {
	switch {
	case k.access&^control.AccessAll != 0:
		return unknownRights("memory region", k.access)
	case k.access&(control.AccessRemoteWrite|control.AccessRemoteAtomic) != 0 && k.access&control.AccessLocalWrite == 0:
		return control.Errorf(control.CodeInvalid, "memory region: access %s lacks local write, which remote write and remote atomic need", rights(k.access))
	}
	return nil
}

// addKey gives k a key and adds it to the tables.
func (c *caller) addKey(k *mkey) error {
	if _, err := c.take("keys", len(c.mrs), c.e.cfg.limits.MRs, k.cost()); err != nil {
		return err
	}
	c.e.keys.add(k)
	c.mrs[k.key>>8] = k
	k.domain().users++
	return nil
}

func (c *caller) allocMW(m *control.MW, _ requestMemory, _ *control.Reply) (control.Message, error) {
	p, ok := c.pds[m.PDN]
	switch {
	case !ok:
		return nil, notFound("PD", m.PDN)
	case m.Kind != 1 && m.Kind != 2:
		return nil, control.Errorf(control.CodeInvalid, "memory window of type %d; 1 and 2 are possible", m.Kind)
	}
	k := &mkey{client: c.client, free: true, window: &window{kind: m.Kind, pd: p}}
	if err := c.addKey(k); err != nil {
		return nil, err
	}
	return &control.Key{Key: k.key}, nil
}

// maxListEntries is the number of list entries that fit into the largest WQE.
const maxListEntries = 52

func (c *caller) createMkey(m *control.Mkey, _ requestMemory, _ *control.Reply) (control.Message, error) {
	p, ok := c.pds[m.PDN]
	switch {
	case !ok:
		return nil, notFound("PD", m.PDN)
	case m.Entries < 1 || m.Entries > maxListEntries:
		return nil, control.Errorf(control.CodeInvalid, "key for a list of %d entries; 1 to %d are possible", m.Entries, maxListEntries)
	}
	k := &mkey{client: c.client, pd: p, free: true, room: int(m.Entries)}
	if err := c.addKey(k); err != nil {
		return nil, err
	}
	k.list = make([]run, 0, m.Entries) // so that no work request allocates it
	if c.hosted.SameKeys {
		c.e.keys.rekey(k, k.key&^0xff) // a program that uses verbs knows only the index
	}
	return &control.Key{Key: k.key}, nil
}

// LetInvalidate lets a peer empty a list key by a SEND with invalidate.
func (c *caller) LetInvalidate(key uint32) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errClosed
	}
	c.e.Do(func() {
		if k := c.mrs[key>>8]; k != nil && k.room > 0 {
			k.inval = true
			return
		}
		err = notFound("list key", key)
	})
	return err
}

// key returns the client's mkey with the index of this key. For registered memory the
// variant must match too. For windows and lists it need not, because work requests change
// their variant, and a program that destroys a window or a list may not know its present
// variant.
func (c *caller) key(key uint32) (*mkey, error) {
	k := c.mrs[key>>8]
	if k == nil || k.region != nil && k.key != key {
		return nil, notFound("key", key)
	}
	return k, nil
}

func (c *caller) deregMR(m *control.Key, _ requestMemory, _ *control.Reply) (control.Message, error) {
	k, err := c.key(m.Key)
	if err != nil {
		return nil, err
	}
	if k.windows > 0 {
		return nil, busy("memory region with key", m.Key, k.windows, "bound memory window", "bound memory windows")
	}
	c.removeKey(k)
	return &control.Empty{}, nil
}

// removeKey removes a key from the device. A transfer that has moved part of the key's
// memory is judged again and then finds no such key. No transfer touches the memory
// afterwards.
func (c *caller) removeKey(k *mkey) {
	sh := c.loop()
	sh.invalidateJobs(k)
	if k.window != nil {
		k.window.attach(nil)
	}
	sh.keys.remove(k.key)
	k.client.refund(k.cost())
	delete(k.client.mrs, k.key>>8)
	k.domain().users--
	if k.region != nil {
		k.region.users--
	}
}

func (c *caller) reregMR(m *control.ReregMR, beside requestMemory, _ *control.Reply) (control.Message, error) {
	k, err := c.key(m.Key)
	switch {
	case err != nil:
		return nil, err
	case k.region == nil:
		return nil, control.Errorf(control.CodeInvalid, "key %#08x is not of registered memory", m.Key)
	case m.What == 0 || m.What&^(control.ReregRange|control.ReregPD|control.ReregAccess) != 0:
		return nil, control.Errorf(control.CodeInvalid, "memory region: change of %#x; bits 0 to 2 are known, and one is needed", m.What)
	}
	if k.windows > 0 {
		return nil, busy("memory region with key", m.Key, k.windows, "bound memory window", "bound memory windows")
	}
	// A changed copy is checked like a new key, and then replaces the old contents of k.
	next := *k
	if m.What&control.ReregPD != 0 {
		p, ok := c.pds[m.PDN]
		if !ok {
			return nil, notFound("PD", m.PDN)
		}
		next.pd = p
	}
	if m.What&control.ReregAccess != 0 {
		next.access = m.Access
	}
	if m.What&control.ReregRange != 0 {
		err = c.place(&next, m.Addr, m.Length, m.IOVA, beside)
	} else { // the key keeps its memory, whatever the client has at its address now
		if err = next.checkRights(); next.access&control.AccessZeroBased != 0 {
			next.base = 0
		}
	}
	if err != nil {
		return nil, err
	}
	c.loop().invalidateJobs(k)
	k.pd.users--
	k.region.users--
	next.pd.users++
	next.region.users++
	if !c.hosted.SameKeys {
		c.e.keys.rekey(k, k.key&^0xff|(k.key+1)&0xff)
	}
	next.key, next.changed = k.key, k.changed
	*k = next
	return &control.Key{Key: k.key}, nil
}
