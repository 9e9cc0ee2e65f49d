package nicless

import (
	"fmt"

	"github.com/nicless/nicless/internal/control"
)

// Reregister changes the domain, range and rights of the MR in one step and gives the MR a
// new key. Work requests with the old key fail, including those that are under way. If pd
// is nil, the MR keeps its domain. The range is n bytes, beginning at offset off in the
// memory that RegisterMemory made. Reregister returns ErrBusy while windows are bound to
// the MR.
//
// The MR must not be used during Reregister.
func (m *MR) Reregister(pd *PD, off, n int, access Access) error {
	const what = "reregister memory"
	if m.pd == nil {
		return wrap(what, errZero)
	}
	if pd == nil {
		pd = m.pd
	}
	if err := pd.usable(what); err != nil {
		return err
	}
	if pd.ctx != m.pd.ctx {
		return wrap(what, control.Errorf(control.CodeInvalid, "the domain belongs to another context"))
	}
	root := m.root()
	root.mu.Lock()
	defer root.mu.Unlock()
	if m.closed.Load() || root.closed.Load() {
		return wrap(what, ErrClosed)
	}
	if off < 0 || n < 1 || off > len(root.whole) || n > len(root.whole)-off {
		return wrap(what, fmt.Errorf("%d bytes at offset %d; the memory has %d", n, off, len(root.whole)))
	}
	addr := root.base + uint64(off)
	req := &control.ReregMR{
		Key: m.key, What: control.ReregRange | control.ReregPD | control.ReregAccess,
		PDN: pd.num, Access: uint32(access), Addr: addr, Length: uint64(n), IOVA: addr,
	}
	var ans control.Key
	if _, err := m.pd.ctx.call(what, control.OpReregMR, req, &ans); err != nil {
		return err
	}
	m.pd, m.key, m.addr = pd, ans.Key, addr
	if access&ZeroBased != 0 {
		m.addr = 0
	}
	m.mem, m.off = root.whole[off:off+n:off+n], off
	return nil
}
