//go:build linux && (amd64 || arm64)

package verbs

import (
	"github.com/nicless/nicless/field/devx"
	"github.com/nicless/nicless/internal/control"
)

var (
	cqEntries = place{devx.CQUmem, devx.CQUmemOffset, "the entries"}
	cqRecord  = place{devx.CQRecordUmem, devx.CQRecord, "the doorbell record"}
)

// makeCQ serves CREATE_CQ. The program has filled the entries as it wants them and clears the record itself.
func makeCQ(c *call, cmd []byte) error {
	x := c.x
	req := &control.CQ{LogSize: uint8(devx.CQLogSize.Get(cmd)), LogCQE: 6}
	if devx.CQEntrySize.On(cmd) {
		req.LogCQE = 7
	}
	entries := req.LogSize
	if devx.CQCollapsed.On(cmd) {
		req.Flags |= control.CQCollapsed
		entries = 0 // the device uses entry 0 alone
	}
	if devx.CQIgnore.On(cmd) {
		req.Flags |= control.CQIgnoreOverrun
	}
	if devx.CQCompressed.On(cmd) {
		req.Flags |= control.CQCompressed
		req.MiniFormat = uint8(devx.CQMiniFormat.Get(cmd))
	}
	_, known := vectorOfEQN(uint32(devx.CQEventQueue.Get(cmd)))
	switch {
	case req.LogSize > x.limits.MaxLogCQ:
		return wrong(cmd, devx.CQLogSize, devx.StatusBadParameter,
			"at most %d is possible", x.limits.MaxLogCQ)
	case devx.CQEntrySize.Get(cmd) > 2:
		return wrong(cmd, devx.CQEntrySize, devx.StatusBadParameter,
			"0 (64 bytes), 1 and 2 (128 bytes) are possible")
	case !known:
		return wrong(cmd, devx.CQEventQueue, devx.StatusBadParameter,
			"query_eqn answers %d to %d", firstEQN, firstEQN+completionVectors-1)
	case devx.CQLayout.On(cmd) || devx.CQMiniFormatMore.On(cmd):
		return wrong(cmd, devx.CQLayout, devx.StatusBadParameter, "compressed completions have the basic layout (0) and formats up to 3")
	case devx.CQPageOffset.On(cmd):
		return wrong(cmd, devx.CQPageOffset, devx.StatusBadParameter,
			"a queue in a umem begins at cq_umem_offset")
	}
	ring, addr, err := x.memoryAt(cmd, cqEntries, 1<<(entries+req.LogCQE), 64)
	if err != nil {
		return err
	}
	record, recordAddr, err := x.memoryAt(cmd, cqRecord, 8, 8)
	if err != nil {
		return err
	}
	req.Buf, req.DBRec = addr, recordAddr
	req.UAR, err = x.pageNamed(cmd, devx.CQUAR)
	if err != nil {
		return err
	}
	req.Channel, err = x.devxChannel()
	if err != nil {
		return err
	}
	if err := x.chargeObject(); err != nil {
		return err
	}
	q := new(cq)
	req.Handle = x.devxHandle()
	held := append(ring.hold(), record.hold()...)
	m, _, err := x.request(control.OpCreateCQ, req)
	if err != nil {
		x.undoHolds(held)
		x.refundObject()
		return refusedByEngine(cmd, err)
	}
	q.number = m.(*control.CQN).CQN
	q.object = x.add(kindDEVX, q, func() error {
		err := x.destroyCQ(q)
		if err == nil {
			x.dropHandle(req.Handle)
		}
		return err
	}, held, ring.object, record.object)
	x.nameHandle(req.Handle, q.number)
	x.numbers[numberOf(kindCQ, q.number)] = q
	if count, period := devx.CQMaxCount.Get(cmd), devx.CQPeriod.Get(cmd); count != 0 || period != 0 {
		if err := x.client.Moderate(q.number, uint16(count), uint16(period)); err != nil {
			_ = x.remove(q.object)
			return refusedByEngine(cmd, err)
		}
	}
	c.putMade(q.object, devx.NewCQN, q.number)
	return nil
}
