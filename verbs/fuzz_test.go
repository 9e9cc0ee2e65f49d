package verbs

import (
	"io"
	"log/slog"
	"os"
	"testing"

	"github.com/nicless/nicless/field/devx"
	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// mostCalls is how many calls of an input are made. Go's fuzzer takes an input for hung after 10 s, which on
// a busy machine may be a tenth of a second of a core.
const mostCalls = 64

// The server answers whatever a program sends, or ends the connection. The server never panics,
// and everything that was made is released at the end of the program. The input is a list of
// datagrams. Each is two bytes with a length, one byte with the operation, and a body of that
// length. One byte more at the end gives the program firmware commands (DEVX).
func FuzzIoctl(f *testing.F) {
	list := func(calls [][]byte) (all []byte) {
		for _, c := range calls {
			all = append(le.AppendUint16(all, uint16(len(c))), byte(opIoctl))
			all = append(all, c...)
		}
		return all
	}
	seed := func(calls ...[]byte) { f.Add(list(calls)) }
	seedDEVX := func(calls ...[]byte) { f.Add(append(list(calls), 0)) }
	call := func(object, method uint16, args ...arg) []byte {
		b := append(u64s(0), u32s(0, uint32(abi.IoctlHdrSize+abi.AttrSize*len(args)))...)
		return append(b, ioctlBytes(object, method, args...)...)
	}
	write := func(command uint64, req []byte, room int) []byte {
		return call(abi.ObjectDevice, abi.MethodInvokeWrite, number(abi.AttrWriteCmd, command), arg{id: abi.AttrCoreIn, in: req},
			arg{id: abi.AttrCoreOut, out: room}, arg{id: abi.AttrUHWIn, in: u64s(0x1000, 64)}, arg{id: abi.AttrUHWOut, out: abi.MLX5QueryDeviceRespSize})
	}
	zeros := func(n int) []byte { return make([]byte, n) }
	with := func(b []byte, words map[int]uint32) []byte {
		for off, v := range words {
			le.PutUint32(b[off:], v)
		}
		return b
	}
	const first, all = 1, abi.AccessLocalWrite | abi.AccessRemoteWrite | abi.AccessRemoteRead | abi.AccessRemoteAtomic
	seed(call(abi.ObjectDevice, abi.MethodQueryPort, number(abi.AttrQueryPortPortNum, 1), arg{id: abi.AttrQueryPortResp, out: abi.QueryPortRespExSize}),
		call(abi.ObjectDevice, abi.MethodQueryGIDTable, number(abi.AttrQueryGIDTableEntrySize, abi.GIDEntrySize),
			arg{id: abi.AttrQueryGIDTableRespEntries, out: gidTableSize * abi.GIDEntrySize}, arg{id: abi.AttrQueryGIDTableRespNumEntries, out: 8}))
	seed(write(abi.CmdQueryDevice, zeros(abi.QueryDeviceSize), abi.QueryDeviceRespSize),
		write(extended|abi.ExCmdQueryDevice, zeros(abi.ExQueryDeviceSize), abi.ExQueryDeviceRespSize),
		write(abi.CmdAllocPD, zeros(abi.AllocPDSize), abi.AllocPDRespSize),
		write(abi.CmdCreateCompChannel, zeros(abi.CreateCompChannelSize), abi.CreateCompChannelRespSize))
	seed(write(abi.CmdRegMR, regMRRequest(0x10000, 4096, 0x10000, first, all), abi.RegMRRespSize),
		write(abi.CmdReregMR, zeros(abi.ReregMRSize), abi.ReregMRRespSize),
		write(abi.CmdAllocMW, with(zeros(abi.AllocMWSize), map[int]uint32{abi.AllocMWPDHandle: first, abi.AllocMWMWType: 2}), abi.AllocMWRespSize))
	seed(write(abi.CmdCreateAH, with(zeros(abi.CreateAHSize), map[int]uint32{abi.CreateAHPDHandle: first}), abi.CreateAHRespSize),
		write(abi.CmdQueryQP, queryQPRequest(4), abi.QueryQPRespSize))
	const toInit = control.AttrState | control.AttrAccess | control.AttrPKeyIndex | control.AttrPort
	seed(write(abi.CmdModifyQP, with(zeros(abi.ModifyQPSize), map[int]uint32{abi.ModifyQPQPHandle: 4, abi.ModifyQPAttrMask: toInit}), 8),
		write(extended|abi.ExCmdModifyQP, zeros(abi.ExModifyQPSize), abi.ExModifyQPRespSize))
	seed(call(abi.ObjectCQ, abi.MethodCQCreate, createCQArgs(15, createCQDriver(0x100000, 0x200000, 0))...),
		write(abi.CmdResizeCQ, with(zeros(abi.ResizeCQSize), map[int]uint32{abi.ResizeCQCQHandle: 3, abi.ResizeCQCQE: 31}), abi.ResizeCQRespSize))
	seed(call(abi.MLX5ObjectUAR, abi.MLX5MethodUARObjAlloc, allocUARArgs()...),
		call(abi.ObjectAsyncEvent, abi.MethodAsyncEventAlloc, arg{id: abi.AttrAsyncEventAllocFDHandle}),
		call(abi.MLX5ObjectDEVX, abi.MLX5MethodDEVXOther, arg{id: abi.MLX5AttrDEVXOtherCmdIn, in: zeros(16)}, arg{id: abi.MLX5AttrDEVXOtherCmdOut, out: 4112}))
	srqDriver := zeros(abi.MLX5CreateSRQSize)
	le.PutUint64(srqDriver[abi.MLX5CreateSRQBufAddr:], 0x100000)
	le.PutUint64(srqDriver[abi.MLX5CreateSRQDBAddr:], 0x200000)
	srq := call(abi.ObjectSRQ, abi.MethodSRQCreate, createSRQArgs(first, srqDriver)...)
	seed(srq)
	dctDriver, dciDriver := createQPDriver(0, 0, 0, 0, 0, abi.MLX5QPFlagTypeDCT, 0), createQPDriver(0x100000, 0x200000, 4, 0, 0, abi.MLX5QPFlagTypeDCI|abi.MLX5QPFlagDCIStream|abi.MLX5QPFlagUARPageIndex, 0)
	seed(srq, call(abi.ObjectQP, abi.MethodQPCreate, createQPArgs(abi.QPTDriver, first, 3, []uint32{0, 0, 0, 0, 0}, dctDriver, arg{id: abi.AttrCreateQPSRQHandle, data: 5})...),
		call(abi.ObjectQP, abi.MethodQPCreate, createQPArgs(abi.QPTDriver, first, 3, []uint32{4, 0, 1, 0, 0}, dciDriver)...),
		write(extended|abi.ExCmdModifyQP, with(zeros(abi.ExModifyQPSize), map[int]uint32{abi.ModifyQPQPHandle: 6, abi.ModifyQPAttrMask: dctInit}), abi.ExModifyQPRespSize),
		write(extended|abi.ExCmdModifyQP, with(zeros(abi.ExModifyQPSize), map[int]uint32{abi.ModifyQPQPHandle: 6, abi.ModifyQPAttrMask: dctRTR}), abi.ExModifyQPRespSize),
		call(abi.MLX5ObjectDEVXObj, abi.MLX5MethodDEVXObjModify, arg{id: abi.MLX5AttrDEVXObjModifyHandle, data: 7}, arg{id: abi.MLX5AttrDEVXObjModifyCmdIn, in: streamCommand(1, 1)}, arg{id: abi.MLX5AttrDEVXObjModifyCmdOut, out: devx.HeadSize}))
	// A domain of the program's own, a target in it, and its second handle. The handles that the
	// target of the fuzzer has made are 1 to 4: a PD, a UAR page, a CQ and a queue pair.
	xsrq := []arg{{id: abi.AttrCreateSRQHandle}, {id: abi.AttrCreateSRQPDHandle, data: first}, {id: abi.AttrCreateSRQXRCDHandle, data: 5},
		{id: abi.AttrCreateSRQCQHandle, data: 3}, {id: abi.AttrCreateSRQUserHandle, in: u64s(1)}, word(abi.AttrCreateSRQMaxWR, 7),
		word(abi.AttrCreateSRQMaxSGE, 1), word(abi.AttrCreateSRQLimit, 0), number(abi.AttrCreateSRQType, abi.SRQTXRC),
		{id: abi.AttrCreateSRQRespMaxWR, out: 4}, {id: abi.AttrCreateSRQRespMaxSGE, out: 4}, {id: abi.AttrCreateSRQRespSRQNum, out: 4},
		{id: abi.AttrUHWIn, in: srqDriver}, {id: abi.AttrUHWOut, out: abi.MLX5CreateSRQRespSize}}
	seed(write(abi.CmdOpenXRCD, openXRCDRequest(noFile, unix.O_CREAT), abi.OpenXRCDRespSize), write(abi.CmdOpenXRCD, openXRCDRequest(3, unix.O_CREAT), abi.OpenXRCDRespSize),
		call(abi.ObjectQP, abi.MethodQPCreate, createTargetArgs(5)...), write(abi.CmdOpenQP, openQPRequest(5, 1, 0), abi.CreateQPRespSize),
		call(abi.ObjectSRQ, abi.MethodSRQCreate, xsrq...), call(abi.ObjectXRCD, abi.MethodXRCDDestroy, arg{id: abi.AttrDestroyXRCDHandle, data: 5}))
	seed(call(abi.ObjectMR, abi.MethodRegDMABufMR, arg{id: abi.AttrRegDMABufMRHandle}, arg{id: abi.AttrRegDMABufMRPDHandle, data: first},
		arg{id: abi.AttrRegDMABufMROffset, in: u64s(0)}, arg{id: abi.AttrRegDMABufMRLength, in: u64s(4096)}, arg{id: abi.AttrRegDMABufMRIOVA, in: u64s(0)},
		word(abi.AttrRegDMABufMRFD, 3), word(abi.AttrRegDMABufMRAccessFlags, all), arg{id: abi.AttrRegDMABufMRRespLKey, out: 4},
		arg{id: abi.AttrRegDMABufMRRespRKey, out: 4}))
	umem := func(addr, length uint64, more ...arg) []byte {
		return call(abi.MLX5ObjectDEVXUmem, abi.MLX5MethodDEVXUmemReg, umemArgs(addr, length, 1, more...)...)
	}
	dereg := call(abi.MLX5ObjectDEVXUmem, abi.MLX5MethodDEVXUmemDereg, arg{id: abi.MLX5AttrDEVXUmemDeregHandle, data: 5})
	seedDEVX(umem(0x10100, 64), umem(0x10000, 0x3000, pageSizes(allPageSizes)), umem(0x12f00, 0x3000), dereg, umem(0x10100, 64))
	seedDEVX(umem(0x10100, 64, arg{id: abi.MLX5AttrDEVXUmemRegDMABufFD, data: 3}), umem(0x40000, 64), dereg)
	for _, op := range []uint16{devx.OpQueryHCACap, 0x101, 0x10a, 0x750, 0x754, 0x760, 0x80d, 0x842, 0xb16} {
		seedDEVX(call(abi.MLX5ObjectDEVX, abi.MLX5MethodDEVXOther, arg{id: abi.MLX5AttrDEVXOtherCmdIn, in: command(op)},
			arg{id: abi.MLX5AttrDEVXOtherCmdOut, out: devx.HeadSize + devx.CapsSize}))
	}
	f.Add(append([]byte{32, 0, byte(opMmap)}, u64s(0x100000, 0x8000, 0x10f000, 0)...))
	f.Add(append([]byte{32, 0, byte(opAlloc)}, u64s(0x100000, 0x8000, 0, 0)...))
	f.Add(append([]byte{32, 0, byte(opFree)}, u64s(0x100000, 0x8000, 0, 0)...))
	f.Add(append([]byte{8, 0, byte(opOpen)}, u64s(1)...))
	f.Add(append([]byte{0, 0, byte(opOpenChannel), 48, 0, byte(opWrite)}, writeRequest(createIDCommand())...))

	s := newServing(f)
	s.log = slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelDebug}))
	fds, rounds := descriptors(f), 0
	f.Fuzz(func(t *testing.T, input []byte) {
		r := s.rig(t)
		r.p.devx = endsWithOneByte(input)
		p := r.program()
		cq := p.ok(p.createCQ(15, 0)).value[0]
		p.ok(p.createQP(abi.QPTRC, cq))
		r.share(0x10000, 0x4000)
		var open []*os.File
		for range mostCalls {
			if len(input) < 3 {
				break
			}
			n := int(le.Uint16(input))
			op := wireOp(input[2])
			input = input[3:]
			body := input[:min(n, len(input))]
			input = input[len(body):]
			to := p.ctx
			for inode := range r.p.managers { // a write is to a channel, always to the same one
				if op == opWrite && (to == p.ctx || inode < to) {
					to = inode
				}
			}
			h := appendAnswer(nil, wireHeader{op: op, context: to}, 0, 0)
			le.PutUint16(h[2:], 0)
			answer, give, err := r.p.handle(finish(append(h, body...)), nil)
			open = append(open, give...)
			if err != nil {
				break
			}
			require.LessOrEqual(t, len(answer), maxDatagram)
		}
		_ = closeFiles(open...)
		for _, ch := range r.p.managers {
			ch.end()
		}
		for _, x := range r.p.contexts {
			x.end()
		}
		r.p.end()
		require.Empty(t, s.contexts)
		require.Empty(t, s.domains.all)
		require.Empty(t, s.domains.targets)
		await.Until(t, "the channels have ended", func() bool { return s.openChannels() == 0 && s.manager.Leftovers() == 0 })
		require.Empty(t, r.p.memory.extents)
		require.Empty(t, r.p.pending)
		rounds++
		if rounds%64 == 0 {
			await.Until(t, "no descriptors are left open", func() bool { return descriptors(t) < fds+64 })
		}
	})
}

// endsWithOneByte reports whether an input of FuzzIoctl has one byte after its datagrams.
func endsWithOneByte(input []byte) bool {
	for len(input) >= 3 {
		n := int(le.Uint16(input))
		input = input[3:]
		input = input[min(n, len(input)):]
	}
	return len(input) == 1
}

func descriptors(t testing.TB) int {
	e, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(e)
}
