package verbs

import (
	"os"

	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/stretchr/testify/require"
)

// Calls as libibverbs and libmlx5 make them.

// write sends a write command.
func (r *rig) write(context uint64, command uint32, req []byte, room int, more ...arg) answer {
	r.Helper()
	args := []arg{number(abi.AttrWriteCmd, uint64(command)), {id: abi.AttrCoreIn, in: req}}
	if room > 0 {
		args = append(args, arg{id: abi.AttrCoreOut, out: room})
	}
	return r.ioctl(context, abi.ObjectDevice, abi.MethodInvokeWrite, append(args, more...)...)
}

func (r *rig) ok(c answer) answer {
	r.Helper()
	require.Zero(r, c.errno, "%v", c.errno)
	return c
}

func (r *rig) queryPort(context uint64) answer {
	r.Helper()
	return r.ioctl(context, abi.ObjectDevice, abi.MethodQueryPort, number(abi.AttrQueryPortPortNum, 1),
		arg{id: abi.AttrQueryPortResp, out: abi.QueryPortRespExSize})
}

func (r *rig) allocAsync(context uint64) answer {
	r.Helper()
	return r.ioctl(context, abi.ObjectAsyncEvent, abi.MethodAsyncEventAlloc, arg{id: abi.AttrAsyncEventAllocFDHandle})
}

func (r *rig) allocUAR(context uint64) answer {
	r.Helper()
	return r.ioctl(context, abi.MLX5ObjectUAR, abi.MLX5MethodUARObjAlloc, allocUARArgs()...)
}

func allocUARArgs() []arg {
	return []arg{{id: abi.MLX5AttrUARObjAllocHandle}, number(abi.MLX5AttrUARObjAllocType, abi.MLX5UARAllocTypeNC),
		{id: abi.MLX5AttrUARObjAllocMmapOffset, out: 8}, {id: abi.MLX5AttrUARObjAllocMmapLength, out: 4}, {id: abi.MLX5AttrUARObjAllocPageID, out: 4}}
}

// mapUAR maps a UAR page, which maps all other UAR pages of the process too.
func (r *rig) mapUAR(ctx, offset uint64) (at, whole uint64) {
	r.Helper()
	h, body, files := r.request(opMmap, ctx, u64s(0x1000, pageSize, offset, 3))
	require.Zero(r, h.error)
	for _, f := range files {
		r.seal(f)
		_ = f.Close()
	}
	return le.Uint64(body), le.Uint64(body[8:])
}

// A program is a context and the objects that most tests need in it.
type program struct {
	*rig
	ctx    uint64
	socket *os.File
	pd     uint32
	uar    uint32
	async  uint64
	at     uint64 // the address of its next ring
}

func (r *rig) program() *program {
	r.Helper()
	p := &program{rig: r, at: 0x10000000 * (1 + r.next)}
	p.ctx, p.socket = r.open(0)
	p.async = p.ok(p.allocAsync(p.ctx)).value[abi.AttrAsyncEventAllocFDHandle]
	pd := p.write(p.ctx, abi.CmdAllocPD, make([]byte, abi.AllocPDSize), abi.AllocPDRespSize, arg{id: abi.AttrUHWOut, out: abi.MLX5AllocPDRespSize})
	p.pd = le.Uint32(p.ok(pd).bytes[abi.AttrCoreOut])
	p.uar = le.Uint32(p.ok(p.allocUAR(p.ctx)).bytes[abi.MLX5AttrUARObjAllocPageID])
	return p
}

// context returns the server's object of the program's context.
func (p *program) context() *uctx { return p.s.context(p.ctx) }

func (s *Server) context(ctx uint64) *uctx {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.contexts[ctx]
}

// ring reserves addresses.
func (p *program) ring(size uint64) uint64 {
	p.at += 0x100000
	return p.at - 0x100000
}

func (p *program) createChannel() answer {
	p.Helper()
	return p.write(p.ctx, abi.CmdCreateCompChannel, make([]byte, abi.CreateCompChannelSize), abi.CreateCompChannelRespSize)
}

// createCQDriver returns a struct mlx5_ib_create_cq.
func createCQDriver(buf, record uint64, uar uint32) []byte {
	d := make([]byte, abi.MLX5CreateCQSize)
	le.PutUint64(d[abi.MLX5CreateCQBufAddr:], buf)
	le.PutUint64(d[abi.MLX5CreateCQDBAddr:], record)
	le.PutUint32(d[abi.MLX5CreateCQCQESize:], 64)
	le.PutUint16(d[abi.MLX5CreateCQFlags:], abi.MLX5CreateCQFlagsUARPageIndex)
	le.PutUint16(d[abi.MLX5CreateCQUARPageIndex:], uint16(uar))
	return d
}

// createCQArgs are the attributes that every CQ needs.
func createCQArgs(cqe uint32, driver []byte) []arg {
	return []arg{{id: abi.AttrCreateCQHandle}, word(abi.AttrCreateCQCQE, cqe), {id: abi.AttrCreateCQUserHandle, in: u64s(0xc0)},
		word(abi.AttrCreateCQCompVector, 0), {id: abi.AttrCreateCQRespCQE, out: 4},
		{id: abi.AttrUHWIn, in: driver}, {id: abi.AttrUHWOut, out: abi.MLX5CreateCQRespSize}}
}

func (p *program) createCQ(cqe uint32, channel uint64) answer {
	p.Helper()
	args := append(createCQArgs(cqe, createCQDriver(p.ring(1<<20), p.ring(pageSize), p.uar)),
		arg{id: abi.AttrCreateCQEventFD, data: p.async, optional: true})
	if channel != 0 {
		args = append(args, arg{id: abi.AttrCreateCQCompChannel, data: channel})
	}
	return p.ioctl(p.ctx, abi.ObjectCQ, abi.MethodCQCreate, args...)
}

func (p *program) destroyCQ(h uint64) answer {
	p.Helper()
	return p.ioctl(p.ctx, abi.ObjectCQ, abi.MethodCQDestroy, arg{id: abi.AttrDestroyCQHandle, data: h},
		arg{id: abi.AttrDestroyCQResp, out: abi.DestroyCQRespSize})
}

// createQPDriver returns a struct mlx5_ib_create_qp.
func createQPDriver(buf, record uint64, sq, rq, shift, flags, uar uint32) []byte {
	d := make([]byte, abi.MLX5CreateQPSize)
	le.PutUint64(d[abi.MLX5CreateQPBufAddr:], buf)
	le.PutUint64(d[abi.MLX5CreateQPDBAddr:], record)
	le.PutUint32(d[abi.MLX5CreateQPSQWQECount:], sq)
	le.PutUint32(d[abi.MLX5CreateQPRQWQECount:], rq)
	le.PutUint32(d[abi.MLX5CreateQPRQWQEShift:], shift)
	le.PutUint32(d[abi.MLX5CreateQPFlags:], flags)
	le.PutUint32(d[abi.MLX5CreateQPBFRegIndex:], uar)
	return d
}

// createQPWith makes a queue pair with these capabilities and this private data.
// createQPArgs are the attributes that every queue pair needs.
func createQPArgs(qpType, pd, cq uint64, caps []uint32, driver []byte, more ...arg) []arg {
	return append([]arg{{id: abi.AttrCreateQPHandle}, {id: abi.AttrCreateQPPDHandle, data: pd},
		{id: abi.AttrCreateQPSendCQHandle, data: cq}, {id: abi.AttrCreateQPRecvCQHandle, data: cq}, {id: abi.AttrCreateQPUserHandle, in: u64s(0xabcd)},
		{id: abi.AttrCreateQPCap, in: u32s(caps...)}, number(abi.AttrCreateQPType, qpType),
		{id: abi.AttrCreateQPRespCap, out: abi.QPCapSize}, {id: abi.AttrCreateQPRespQPNum, out: 4}, {id: abi.AttrUHWIn, in: driver}}, more...)
}

func (p *program) createQPWith(qpType, cq uint64, caps []uint32, driver []byte, more ...arg) answer {
	p.Helper()
	return p.ioctl(p.ctx, abi.ObjectQP, abi.MethodQPCreate, createQPArgs(qpType, uint64(p.pd), cq, caps, driver, more...)...)
}

// createSRQArgs are the attributes of an SRQ of 7 entries.
func createSRQArgs(pd uint64, driver []byte) []arg {
	return []arg{{id: abi.AttrCreateSRQHandle}, {id: abi.AttrCreateSRQPDHandle, data: pd},
		{id: abi.AttrCreateSRQUserHandle, in: u64s(1)}, word(abi.AttrCreateSRQMaxWR, 7), word(abi.AttrCreateSRQMaxSGE, 1), word(abi.AttrCreateSRQLimit, 0),
		number(abi.AttrCreateSRQType, abi.SRQTBasic), {id: abi.AttrCreateSRQRespMaxWR, out: 4}, {id: abi.AttrCreateSRQRespMaxSGE, out: 4},
		{id: abi.AttrUHWIn, in: driver}, {id: abi.AttrUHWOut, out: abi.MLX5CreateSRQRespSize}}
}

func (p *program) createQP(qpType, cq uint64, more ...arg) answer {
	p.Helper()
	d := createQPDriver(p.ring(1<<20), p.ring(pageSize), 16, 8, 4, abi.MLX5QPFlagUARPageIndex, p.uar)
	more = append([]arg{{id: abi.AttrCreateQPEventFD, data: p.async, optional: true}, {id: abi.AttrUHWOut, out: abi.MLX5CreateQPRespSize}}, more...)
	return p.createQPWith(qpType, cq, []uint32{4, 4, 1, 1, 0}, d, more...)
}

func (p *program) destroyQP(h uint64) answer {
	p.Helper()
	return p.ioctl(p.ctx, abi.ObjectQP, abi.MethodQPDestroy, arg{id: abi.AttrDestroyQPHandle, data: h},
		arg{id: abi.AttrDestroyQPResp, out: abi.DestroyQPRespSize})
}

// regMRRequest returns a struct ib_uverbs_reg_mr.
func regMRRequest(start, length, iova uint64, pd, access uint32) []byte {
	b := make([]byte, abi.RegMRSize)
	le.PutUint64(b[abi.RegMRStart:], start)
	le.PutUint64(b[abi.RegMRLength:], length)
	le.PutUint64(b[abi.RegMRHCAVA:], iova)
	le.PutUint32(b[abi.RegMRPDHandle:], pd)
	le.PutUint32(b[abi.RegMRAccessFlags:], access)
	return b
}

func (p *program) regMR(start, length, iova uint64, pd, access uint32) answer {
	p.Helper()
	return p.write(p.ctx, abi.CmdRegMR, regMRRequest(start, length, iova, pd, access), abi.RegMRRespSize)
}

func (p *program) deregMR(h uint64) answer {
	p.Helper()
	return p.ioctl(p.ctx, abi.ObjectMR, abi.MethodMRDestroy, arg{id: abi.AttrDestroyMRHandle, data: h})
}

// queryQPRequest returns a struct ib_uverbs_query_qp.
func queryQPRequest(h uint32) []byte {
	b := make([]byte, abi.QueryQPSize)
	le.PutUint32(b[abi.QueryQPQPHandle:], h)
	return b
}
