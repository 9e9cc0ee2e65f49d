package verbs

import (
	"encoding/binary"
	"testing"

	"github.com/nicless/nicless/field/devx"
	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// command returns a firmware command of n bytes, 16 by default.
func command(op uint16, words ...uint32) []byte {
	b := make([]byte, max(16, 4+4*len(words)))
	binary.BigEndian.PutUint16(b, op)
	for i, w := range words {
		binary.BigEndian.PutUint32(b[4+4*i:], w)
	}
	return b
}

// fails requires that a firmware command has failed with a status, and that the program gets the status.
func fails(t testing.TB, want devx.Status, a answer) {
	t.Helper()
	require.Equal(t, unix.EREMOTEIO, a.errno)
	out := a.bytes[abi.MLX5AttrDEVXOtherCmdOut]
	require.GreaterOrEqual(t, len(out), devx.HeadSize)
	require.Equal(t, want, devx.Status(out[0]))
	require.NotZero(t, binary.BigEndian.Uint32(out[4:]), "syndrome")
	require.Equal(t, make([]byte, len(out)-8), out[8:])
}

// GET_CONTEXT grants firmware commands once, to programs that may have them.
func TestGetDEVXContext(t *testing.T) {
	for _, m := range []struct {
		engine bool
		wants  uint32
		want   unix.Errno
	}{
		{false, 0, unix.EINVAL}, {true, 0, 0}, {false, wantDEVX, 0}, {true, noDEVX, unix.EINVAL}, {true, wantDEVX | noDEVX, unix.EINVAL},
	} {
		s := newServingWith(t, Config{NoDEVX: !m.engine})
		r := &rig{TB: t, s: s, p: s.newProcess(0, 1000, nil)}
		hello := helloBytes()
		le.PutUint32(hello[8:], m.wants)
		h, _, _ := r.request(opHello, 0, hello)
		require.Zero(t, h.error)
		h, body, files := r.request(opOpen, 0, u64s(0))
		require.Zero(t, h.error)
		ctx := le.Uint64(body)
		ask := func(flags uint32) unix.Errno {
			req := make([]byte, abi.MLX5AllocUcontextReqV2Size)
			le.PutUint32(req[abi.MLX5AllocUcontextReqV2Flags:], flags)
			le.PutUint64(req[abi.MLX5AllocUcontextReqV2LibCaps:], abi.MLX5LibCapDynUAR)
			return r.ioctl(ctx, abi.ObjectDevice, abi.MethodGetContext, arg{id: abi.AttrUHWIn, in: req},
				arg{id: abi.AttrUHWOut, out: abi.MLX5AllocUcontextRespSize}).errno
		}
		require.Equal(t, m.want, ask(abi.MLX5AllocUctxDEVX), "%+v", m)
		require.Equal(t, m.want == 0, s.context(ctx).devx)
		if m.want != 0 {
			require.Contains(t, r.p.past.explain(), "--no-devx")
			require.Zero(t, ask(0))
			require.False(t, s.context(ctx).devx)
		}
		require.Equal(t, unix.EINVAL, ask(abi.MLX5AllocUctxDEVX), "a second time")
		s.syncWithContexts()
		_ = files[0].Close()
		r.p.end()
	}
}

// Commands about no object answer what the other interfaces of the device say.
func TestGeneralCommands(t *testing.T) {
	p := newDEVXProgram(t)
	p.tell("eth0", "10.1.2.3/24", "eth0", "2001:db8::5/64")
	d := p.context().device
	run := func(cmd []byte, room int) []byte {
		t.Helper()
		return p.ok(p.general(cmd, room)).bytes[abi.MLX5AttrDEVXOtherCmdOut]
	}
	be := binary.BigEndian
	adapter := run(command(0x101), 0x110)
	require.EqualValues(t, vendorID, be.Uint32(adapter[0x28:]))
	require.Equal(t, "NICLESS\x00", string(adapter[0x100:0x108]))
	issi := run(command(0x10a), 0x70)
	require.EqualValues(t, 1, be.Uint16(issi[0x0a:]))
	require.EqualValues(t, 2, be.Uint32(issi[0x6c:]))
	require.Equal(t, make([]byte, 32), run(command(0x80d), 32), "NOP")
	require.Equal(t, make([]byte, 16), run(command(0x842), 16), "no LAG")
	require.EqualValues(t, 0x11, run(command(0x750), 16)[15], "to be up, and up")
	mac := d.mac()
	for i := range gidTableSize {
		entry, ok := p.context().net.entry(d, i)
		b := run(command(0x760, 0, uint32(i)<<16), 0x30)
		if !ok {
			require.Equal(t, make([]byte, 0x30), b, "entry %d is empty", i)
			continue
		}
		require.Equal(t, entry.gid[:], b[0x10:0x20])
		require.Equal(t, mac[:], b[0x22:0x28])
		require.EqualValues(t, i%2*2, b[0x2b], "entry %d: the version of RoCE", i)
		isV4 := entry.gid[10] == 0xff && entry.gid[0] == 0
		require.Equal(t, isV4, b[0x2a] == 0, "entry %d: IPv4 or IPv6", i)
	}
	require.EqualValues(t, 11, be.Uint32(run(queryCaps(devx.CapsGeneral, 1), devx.HeadSize+devx.CapsSize)[devx.HeadSize+0x70:])>>24&31, "log_max_rmp")
}

// Commands that the device does not have fail with a status, and those that the kernel passes on to no NIC
// with EINVAL.
func TestGeneralMistakes(t *testing.T) {
	p := newDEVXProgram(t)
	for _, op := range []uint16{0x752, 0x754, 0x762, 0x76f, 0x770, 0x80a, 0x822, 0x824, 0x826, 0xb00, 0xb16, 0xcff} {
		fails(t, devx.StatusBadOpcode, p.general(command(op), 512))
	}
	for _, op := range []uint16{0, 1, 0x102, 0x10b, 0x200, 0x400, 0x500, 0x50b, 0x716, 0x761, 0x802, 0x805, 0xaff, 0xd00, 0xffff} {
		require.Equal(t, unix.EINVAL, p.general(command(op), 512).errno, "command %#x", op)
	}
	fails(t, devx.StatusBadParameter, p.general(queryCaps(capGroups, 1), devx.HeadSize+devx.CapsSize))
	fails(t, devx.StatusBadParameter, p.general(command(0x760, 0, gidTableSize<<16), 0x30))
	fails(t, devx.StatusBadParameter, p.general(command(0x750, 1), 16))
	fails(t, devx.StatusBadParameter, p.general(command(0x750, 0, 1<<31), 16))

	// Mailboxes of each length.
	for op, run := range generalCommands {
		name := devx.Name(op)
		cmd := command(op)
		for n := range devx.HeadSize {
			require.Equal(t, unix.EINVAL, p.general(cmd[:n], 512).errno, "%s of %d bytes", name, n)
		}
		for room := 1; room <= 512; room++ {
			a := p.general(cmd, room)
			switch {
			case room < devx.HeadSize:
				require.Equal(t, unix.EINVAL, a.errno, "%s with room for %d bytes", name, room)
			case run == nil:
				fails(t, devx.StatusBadOpcode, a)
			case room < devx.Find(op).OutSize:
				fails(t, devx.StatusBadOutputLength, a)
			default:
				require.Len(t, p.ok(a).bytes[abi.MLX5AttrDEVXOtherCmdOut], room)
			}
		}
		if run != nil {
			p.ok(p.general(append(cmd, make([]byte, 496)...), devx.HeadSize+devx.CapsSize))
		}
	}
	p.ok(p.queryPort(p.ctx))
}

// Each completion vector has an event queue, and no other vector has one.
func TestQueryEQN(t *testing.T) {
	p := newDEVXProgram(t)
	ask := func(p *program, vector uint32) answer {
		return p.ioctl(p.ctx, abi.MLX5ObjectDEVX, abi.MLX5MethodDEVXQueryEQN, word(abi.MLX5AttrDEVXQueryEQNUserVec, vector),
			arg{id: abi.MLX5AttrDEVXQueryEQNDevEQN, out: 4})
	}
	for v := range uint32(completionVectors) {
		eqn := le.Uint32(p.ok(ask(p, v)).bytes[abi.MLX5AttrDEVXQueryEQNDevEQN])
		vector, ok := vectorOfEQN(eqn)
		require.True(t, ok)
		require.Equal(t, v, vector)
	}
	require.Equal(t, unix.ENOENT, ask(p, completionVectors).errno)
	require.Equal(t, unix.ENOENT, ask(p, ^uint32(0)).errno)
	for _, eqn := range []uint32{0, firstEQN - 1, firstEQN + completionVectors, ^uint32(0)} {
		_, ok := vectorOfEQN(eqn)
		require.False(t, ok, "%d", eqn)
	}
	require.Equal(t, unix.EPROTONOSUPPORT, ask(newRig(t).program(), 0).errno, "without DEVX")
}

// Each UAR object has a page of its own while there are any. After that, objects share the pages that have
// no queue pair which its register alone starts, and no such queue pair is made on a page that is shared.
func TestUARPagesAreNotShared(t *testing.T) {
	m := newMaker(t)
	alone := func(page int) []byte {
		_, cqn := m.made(m.cqCommand(), devx.NewCQN)
		return m.qpCommand(cqn, devx.QPUAR, page, devx.QPDoorbells, 1)
	}
	users := map[int]int{int(m.uar): 1}
	alloc := func() int {
		page := m.uarPage(abi.MLX5UARAllocTypeBF)
		users[page]++
		return page
	}
	for range uarPages - 1 {
		require.Equal(t, 1, func() int { return users[alloc()] }())
	}
	h, _ := m.made(alone(5), devx.NewQPN)
	for range 2 * uarPages {
		require.NotEqual(t, 5, alloc())
	}
	shared := alloc()
	m.failed(m.create(alone(shared)), abi.MLX5AttrDEVXObjCreateCmdOut, devx.StatusResourceBusy, devx.QPUAR, "a page of others")
	require.ErrorContains(t, m.context().registerLeft(alone(shared), uint16(shared-firstUAR)), "UARs have this page, because the process has more than 64")
	require.Zero(t, m.destroy(h))
	require.Equal(t, 5, alloc(), "as others, it is the least used page")
}

// A page stays that of a queue pair which its register alone starts when its UAR is freed, and how many
// such queue pairs it can have is a matter of the UARs that it has now.
func TestUARPagesOfFreedObjects(t *testing.T) {
	m := newMaker(t)
	_, cqn := m.made(m.cqCommand(), devx.NewCQN)
	alloc := func(allocType uint64) (page int, handle uint64) {
		args := allocUARArgs()
		args[1] = number(abi.MLX5AttrUARObjAllocType, allocType)
		a := m.ok(m.ioctl(m.ctx, abi.MLX5ObjectUAR, abi.MLX5MethodUARObjAlloc, args...))
		return int(le.Uint32(a.bytes[abi.MLX5AttrUARObjAllocPageID])), a.value[abi.MLX5AttrUARObjAllocHandle]
	}
	free := func(h uint64) {
		m.ok(m.ioctl(m.ctx, abi.MLX5ObjectUAR, abi.MLX5MethodUARObjDestroy, arg{id: abi.MLX5AttrUARObjDestroyHandle, data: h}))
	}
	alone := func(page int) []byte { return m.qpCommand(cqn, devx.QPUAR, page, devx.QPDoorbells, 1) }
	page, h := alloc(abi.MLX5UARAllocTypeBF)
	m.made(alone(page), devx.NewQPN)
	free(h)
	for range 2 * uarPages {
		got, _ := alloc(abi.MLX5UARAllocTypeBF)
		require.NotEqual(t, page, got)
	}

	m = newMaker(t)
	_, cqn = m.made(m.cqCommand(), devx.NewCQN)
	plain, _ := alloc(abi.MLX5UARAllocTypeNC)
	for range uarPages - 2 {
		alloc(abi.MLX5UARAllocTypeBF)
	}
	for page = 0; page != plain; {
		if page, h = alloc(abi.MLX5UARAllocTypeBF); page != plain {
			defer free(h)
		}
	}
	free(h)
	m.made(alone(plain), devx.NewQPN)
	m.failed(m.create(alone(plain)), abi.MLX5AttrDEVXObjCreateCmdOut, devx.StatusResourceBusy, devx.QPUAR, "one on a page of type NC")
}

// If all pages have queue pairs without records, there is no UAR for anybody else.
func TestUARPagesOfRegistersOnly(t *testing.T) {
	m := newMaker(t)
	_, cqn := m.made(m.cqCommand(), devx.NewCQN)
	pages := []int{int(m.uar)}
	for range uarPages - 1 {
		pages = append(pages, m.uarPage(abi.MLX5UARAllocTypeBF))
	}
	var last uint64
	for _, page := range pages {
		last, _ = m.made(m.qpCommand(cqn, devx.QPUAR, page, devx.QPDoorbells, 1), devx.NewQPN)
	}
	before := m.context().cost
	require.Equal(t, unix.ENOMEM, m.allocUAR(m.ctx).errno)
	require.Equal(t, before, m.context().cost)
	require.Zero(t, m.destroy(last))
	require.Equal(t, pages[uarPages-1], m.uarPage(abi.MLX5UARAllocTypeBF))
}

// An InfiniBand port has no RoCE addresses.
func TestGeneralCommandsOfInfiniBand(t *testing.T) {
	p := newServingWith(t, Config{Links: []Link{InfiniBand}}).rig(t).program()
	fails(t, devx.StatusBadSystemState, p.general(command(0x760), 0x30))
	caps := p.ok(p.general(queryCaps(devx.CapsGeneral, 1), devx.HeadSize+devx.CapsSize)).bytes[abi.MLX5AttrDEVXOtherCmdOut][devx.HeadSize:]
	require.Zero(t, caps[0x36]&3, "port_type")
	require.EqualValues(t, 8, 8<<binary.BigEndian.Uint16(caps[0x2e:]), "gid_table_size")
}
