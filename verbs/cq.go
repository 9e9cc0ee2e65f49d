//go:build linux && (amd64 || arm64)

package verbs

import (
	"math/bits"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/verbs/internal/abi"
)

// A cq is a completion queue.
type cq struct {
	*object
	number  uint32
	entries uint32 // those that can be used
	channel *channel
	events  eventState
}

// completionVectors is the number of interrupt vectors that a program may choose from.
// The choice has no effect.
const completionVectors = 2

// createCQMin is how many bytes of struct mlx5_ib_create_cq are needed: all before
// uar_page_index, which older versions of libmlx5 do not send.
const createCQMin = abi.MLX5CreateCQUARPageIndex

// cqFlags are the flags of enum ib_uverbs_ex_create_cq_flags that are possible. Every
// completion has a time stamp, with the flag or without.
const cqFlags = abi.CQFlagsTimestampCompletion | abi.CQFlagsIgnoreOverrun

// cqRing returns two logarithms: log is that of the number of entries, of which one stays
// free, and logCQE is that of the number of bytes of an entry.
func cqRing(x *uctx, cqe, size uint32) (log, logCQE uint8, err error) {
	most := uint32(1)<<x.limits.MaxLogCQ - 1
	switch {
	case cqe == 0 || cqe > most:
		return 0, 0, refuse(eINVAL, "CQ of %d entries; 1 to %d are possible", cqe, most)
	case size != 64 && size != 128:
		return 0, 0, refuse(eINVAL, "CQ with entries of %d bytes; 64 and 128 are possible", size)
	}
	return uint8(bits.Len32(cqe)), uint8(bits.Len32(size) - 1), nil
}

// miniFormat returns the mini_cqe_res_format that a value of enum mlx5_ib_cqe_comp_res_format
// means. The refusal is that of create_cq_user in the kernel's drivers/infiniband/hw/mlx5/cq.c.
func miniFormat(format uint8) (uint8, error) {
	switch format {
	case abi.MLX5CQEResFormatHash:
		return control.MiniHash, nil
	case abi.MLX5CQEResFormatCsum:
		return control.MiniChecksum, nil
	case abi.MLX5CQEResFormatCsumStrIdx:
		return control.MiniChecksumStride, nil
	}
	return 0, refuse(eINVAL, "compressed CQ with format %#x; %#x, %#x and %#x are possible", format,
		abi.MLX5CQEResFormatHash, abi.MLX5CQEResFormatCsum, abi.MLX5CQEResFormatCsumStrIdx)
}

func createCQ(c *call) error {
	x := c.x
	d := make([]byte, abi.MLX5CreateCQSize)
	copy(d, c.bytes(abi.AttrUHWIn))
	driverFlags := le.Uint16(d[abi.MLX5CreateCQFlags:])
	flags, vector, userHandle := c.value(abi.AttrCreateCQFlags), c.value32(abi.AttrCreateCQCompVector),
		c.value(abi.AttrCreateCQUserHandle)
	log, logCQE, err := cqRing(x, c.value32(abi.AttrCreateCQCQE), le.Uint32(d[abi.MLX5CreateCQCQESize:]))
	switch {
	case err != nil:
		return err
	case vector >= completionVectors:
		return refuse(eINVAL, "completion vector %d; there are %d", vector, completionVectors)
	case driverFlags&abi.MLX5CreateCQFlagsRealTimeTS != 0:
		return refuse(eOPNOTSUPP, "flags %#x: real time is not possible", driverFlags)
	case flags&^cqFlags != 0:
		return refuse(eOPNOTSUPP, "flags %#x; bits 0 and 1 are known", flags)
	}
	req := &control.CQ{Buf: le.Uint64(d[abi.MLX5CreateCQBufAddr:]),
		DBRec: le.Uint64(d[abi.MLX5CreateCQDBAddr:]), Handle: userHandle, LogSize: log, LogCQE: logCQE}
	if flags&abi.CQFlagsIgnoreOverrun != 0 {
		req.Flags = control.CQIgnoreOverrun
	}
	if d[abi.MLX5CreateCQCQECompEn] == 1 { // like the kernel's driver, which ignores other values
		req.MiniFormat, err = miniFormat(d[abi.MLX5CreateCQCompFormat])
		if err != nil {
			return err
		}
		req.Flags |= control.CQCompressed
	}
	page := uint32(firstUAR) // the context's first page, if the program names none
	if driverFlags&abi.MLX5CreateCQFlagsUARPageIndex != 0 {
		page = uint32(le.Uint16(d[abi.MLX5CreateCQUARPageIndex:]))
	}
	req.UAR, err = x.uarPage(page)
	if err != nil {
		return err
	}
	async, err := c.async(abi.AttrCreateCQEventFD)
	if err != nil && err != errAgain {
		return err
	}
	ch, err := c.channel(abi.AttrCreateCQCompChannel)
	if err != nil && err != errAgain {
		return err
	}
	defer ch.drop()
	held, err := c.holdAreas(area{"CQ buffer", req.Buf, 1 << (log + logCQE), 64},
		area{"CQ doorbell record", req.DBRec, 8, 8})
	if err != nil {
		return err
	}
	if ch != nil {
		req.Channel = ch.id
	}
	if err := held[1].zero(req.DBRec); err != nil {
		x.undoHolds(held)
		return err
	}
	if err := x.chargeQueue(kindCQ, x.limits.MaxCQs); err != nil {
		x.undoHolds(held)
		return err
	}
	m, _, err := x.request(control.OpCreateCQ, req)
	if err != nil {
		x.undoHolds(held)
		x.refundObject()
		return err
	}
	q := &cq{number: m.(*control.CQN).CQN, entries: 1<<log - 1, channel: ch,
		events: eventState{async: async, element: userHandle}}
	if ch != nil {
		ch.use()
	}
	q.object = x.add(kindCQ, q, func() error { return x.destroyCQ(q) }, held)
	x.numbers[numberOf(kindCQ, q.number)] = q
	c.putHandle(abi.AttrCreateCQHandle, q.object)
	c.put32(abi.AttrCreateCQRespCQE, 1<<log-1)
	c.put32(abi.AttrUHWOut, q.number) // struct mlx5_ib_create_cq_resp
	return nil
}

// zero clears a doorbell record. libmlx5 clears the record too, but its store may have been
// lost while the page was remapped. zero returns an error if the page has never been touched
// and there is no memory for it.
func (e *extent) zero(addr uint64) error {
	rec := e.at(addr, 8)
	if err := e.mem.Populate(rec); err != nil {
		return refuse(eNOMEM, "doorbell record at %#x: %v", addr, err)
	}
	shm.BE32At(rec, 0).Publish(0)
	shm.BE32At(rec, 4).Publish(0)
	return nil
}

func (x *uctx) destroyCQ(q *cq) error {
	if err := x.command(control.OpDestroyCQ, &control.CQN{CQN: q.number}); err != nil {
		return err
	}
	if q.channel != nil {
		q.channel.leave()
	}
	delete(x.numbers, numberOf(kindCQ, q.number))
	return nil
}

// destroyCQ destroys a CQ. It answers how many completion events and how many asynchronous
// events of the CQ the program has read: libibverbs then waits until as many have been
// acknowledged.
func destroyCQ(c *call) error {
	q := c.destroyed().self.(*cq)
	if err := c.x.unused(q.object); err != nil { // before events are taken back
		return err
	}
	var completions uint32
	if q.channel != nil {
		completions = c.x.client.Retract(q.number, q.channel.reader)
	}
	if err := c.destroyOnly(); err != nil {
		return err
	}
	c.put32(abi.AttrDestroyCQResp, completions, q.events.retract(c.x)) // struct ib_uverbs_destroy_cq_resp
	return nil
}

// resizeCQ serves RESIZE_CQ. The request is struct ib_uverbs_resize_cq, and libmlx5's
// private data is struct mlx5_ib_resize_cq.
func resizeCQ(c *call, req []byte) error {
	x := c.x
	q, err := lookup[*cq](c, "cq", le.Uint32(req[abi.ResizeCQCQHandle:]), kindCQ)
	if err != nil {
		return err
	}
	d := c.bytes(abi.AttrUHWIn)
	log, logCQE, err := cqRing(x, le.Uint32(req[abi.ResizeCQCQE:]),
		uint32(le.Uint16(d[abi.MLX5ResizeCQCQESize:])))
	if err != nil {
		return err
	}
	buf := le.Uint64(d[abi.MLX5ResizeCQBufAddr:])
	held, err := c.holdAreas(area{"CQ buffer", buf, 1 << (log + logCQE), 64})
	if err != nil {
		return err
	}
	x.executeAnnounced()
	resize := &control.ResizeCQ{CQN: q.number, LogSize: log, LogCQE: logCQE, Buf: buf}
	if err := x.command(control.OpResizeCQ, resize); err != nil {
		x.undoHolds(held)
		return err
	}
	x.endHolds(q.extents[:1])
	q.extents, q.entries = []*extent{held[0], q.extents[1]}, 1<<log-1
	c.put32(abi.AttrCoreOut, 1<<log-1, 0) // struct ib_uverbs_resize_cq_resp: cqe, reserved
	return nil
}
