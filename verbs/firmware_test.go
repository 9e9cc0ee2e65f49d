package verbs

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/nicless/nicless/field/devx"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A context that asks for firmware commands is refused, and libmlx5 then asks without.
func TestNoFirmwareCommands(t *testing.T) {
	r := newRig(t)
	h, body, files := r.request(opOpen, 0, u64s(0))
	require.Zero(t, h.error)
	ctx := le.Uint64(body)
	r.files[1] = files[0]
	for _, flags := range []uint32{abi.MLX5AllocUctxDEVX, abi.MLX5AllocUctxDEVX, 0} {
		req := make([]byte, abi.MLX5AllocUcontextReqV2Size)
		le.PutUint32(req[abi.MLX5AllocUcontextReqV2Flags:], flags)
		le.PutUint64(req[abi.MLX5AllocUcontextReqV2LibCaps:], abi.MLX5LibCapDynUAR)
		want := unix.EINVAL
		if flags == 0 {
			want = 0
		}
		require.Equal(t, want, r.ioctl(ctx, abi.ObjectDevice, abi.MethodGetContext,
			arg{id: abi.AttrUHWIn, in: req}, arg{id: abi.AttrUHWOut, out: abi.MLX5AllocUcontextRespSize}).errno)
	}
}

func (p *program) general(cmd []byte, room int) answer {
	p.Helper()
	return p.ioctl(p.ctx, abi.MLX5ObjectDEVX, abi.MLX5MethodDEVXOther,
		arg{id: abi.MLX5AttrDEVXOtherCmdIn, in: cmd}, arg{id: abi.MLX5AttrDEVXOtherCmdOut, out: room})
}

func queryCaps(group, current uint16) []byte {
	return binary.BigEndian.AppendUint64([]byte{1, 0, 0, 0, 0, 0, byte(group >> 7), byte(group<<1 | current)}, 0)
}

// QUERY_HCA_CAP answers what programs that use firmware commands check or divide by.
func TestCapabilities(t *testing.T) {
	p := newRig(t).program()
	ask := func(group uint16) []byte {
		most := p.ok(p.general(queryCaps(group, 0), devx.HeadSize+devx.CapsSize)).bytes[abi.MLX5AttrDEVXOtherCmdOut]
		require.Equal(t, most, p.ok(p.general(queryCaps(group, 1), devx.HeadSize+devx.CapsSize)).bytes[abi.MLX5AttrDEVXOtherCmdOut])
		require.Equal(t, make([]byte, devx.HeadSize), most[:devx.HeadSize], "status and syndrome")
		return most[devx.HeadSize:]
	}
	word := func(b []byte, at int) uint32 { return binary.BigEndian.Uint32(b[at:]) }
	general := ask(devx.CapsGeneral)
	require.EqualValues(t, 30, word(general, 0x38)>>24&31, "log_max_msg")
	require.EqualValues(t, 1, word(general, 0x3c)&15, "cqe_version")
	require.EqualValues(t, 1, word(general, 0x34)>>8&3, "port_type: Ethernet")
	require.EqualValues(t, 1024, word(general, 0x50)&0xffff, "max_wqe_sz_sq")
	require.EqualValues(t, 512, word(general, 0x54)&0xffff, "max_wqe_sz_rq")
	require.EqualValues(t, 15, word(general, 0x10)>>16&0xff, "log_max_qp_sz")
	require.EqualValues(t, 7, word(general, 0x44)&7, "rc, uc, ud")
	require.EqualValues(t, 1<<31|9<<16, word(general, 0x4c), "bf, log_bf_reg_size")
	require.EqualValues(t, gidTableSize, 8<<(word(general, 0x2c)&0xffff), "gid_table_size")
	require.Zero(t, word(general, 0x20)>>23&1, "fixed_buffer_size")
	require.EqualValues(t, 1, word(general, 0x40)>>5&1, "dct")
	require.EqualValues(t, 1, word(general, 0x24)>>29&1, "qpc_extension")
	require.EqualValues(t, uint32(0xfc000000), word(ask(devx.CapsODP), 0x10), "rc_odp_caps")
	require.EqualValues(t, uint32(0xbc000000), word(ask(devx.CapsODP), 0x20), "dc_odp_caps: all but a receive queue of its own")
	require.Zero(t, word(general, 0x44)>>24&1, "pg")
	require.Zero(t, word(general, 0x4c)&15, "num_lag_ports")
	require.EqualValues(t, uint32(0x42000000), word(ask(devx.CapsAtomic), 0x08), "results of 8 bytes are in host order")
	require.EqualValues(t, 0xf, word(ask(devx.CapsAtomic), 0x10), "atomic_operations")
	require.EqualValues(t, 0xc, word(ask(devx.CapsAtomic), 0x14), "atomic_size_qp")
	require.EqualValues(t, 0xc, word(ask(devx.CapsAtomic), 0x18), "atomic_size_dc")
	require.EqualValues(t, 4<<16|4, word(general, 0x24)&0x3f003f, "log_max_ra_req_dc, log_max_ra_res_dc")
	require.EqualValues(t, 1, word(general, 0x04)&0xffff, "vhca_id")
	require.Zero(t, word(general, 0x70)>>24&31, "log_max_rmp, without DEVX")
	require.EqualValues(t, uint32(0xffffc000), word(ask(devx.CapsRoCE), 0x18), "UDP source ports")
	const qos, flowTables = 0xc, 7
	require.Equal(t, make([]byte, devx.CapsSize), ask(qos))
	require.Equal(t, make([]byte, devx.CapsSize), ask(flowTables))
	require.Len(t, p.ok(p.general(queryCaps(0, 1), 16)).bytes[abi.MLX5AttrDEVXOtherCmdOut], 16, "a short answer")
	require.Equal(t, unix.EINVAL, p.general(queryCaps(capGroups, 1), 16).errno)
	require.Equal(t, unix.EINVAL, p.general(queryCaps(0, 1)[:15], 16).errno, "too short")
	require.Equal(t, unix.EOPNOTSUPP, p.general([]byte{7, 0x52, 15: 0}, 16).errno, "embedded switch")
	require.Equal(t, unix.EINVAL, p.general([]byte{8, 0xd, 15: 0}, 16).errno, "NOP")
}

func (p *program) createMkey(cmd []byte) answer {
	p.Helper()
	return p.ioctl(p.ctx, abi.MLX5ObjectDEVXObj, abi.MLX5MethodDEVXObjCreate, arg{id: abi.MLX5AttrDEVXObjCreateHandle},
		arg{id: abi.MLX5AttrDEVXObjCreateCmdIn, in: cmd}, arg{id: abi.MLX5AttrDEVXObjCreateCmdOut, out: devx.HeadSize})
}

func (p *program) destroyFirmwareObject(h uint64) answer {
	p.Helper()
	return p.ioctl(p.ctx, abi.MLX5ObjectDEVXObj, abi.MLX5MethodDEVXObjDestroy, arg{id: abi.MLX5AttrDEVXObjDestroyHandle, data: h})
}

// mkeyCommand is CREATE_MKEY as libmlx5 sends it.
func mkeyCommand(pdn, entries uint32) []byte {
	cmd := make([]byte, 272)
	be := binary.BigEndian
	be.PutUint32(cmd, devx.OpCreateMkey<<16)
	be.PutUint32(cmd[0x10:], 0x40008600) // free, umr_en, lr, KLM
	be.PutUint32(cmd[0x14:], 0xffffff00)
	be.PutUint32(cmd[0x1c:], pdn)
	be.PutUint32(cmd[0x44:], entries)
	return cmd
}

func (p *program) pdn() uint32 { return p.context().objects[p.pd].self.(*pd).number }

// CREATE_MKEY makes list keys, and no other ones.
func TestCreateMkey(t *testing.T) {
	r := newRig(t)
	p, other := r.program(), r.program()
	c := p.ok(p.createMkey(mkeyCommand(p.pdn(), 32)))
	h, out := c.value[abi.MLX5AttrDEVXObjCreateHandle], c.bytes[abi.MLX5AttrDEVXObjCreateCmdOut]
	require.Zero(t, out[0], "status")
	require.NotZero(t, binary.BigEndian.Uint32(out[8:])&0xffffff, "index")
	dealloc := func() unix.Errno {
		return p.ioctl(p.ctx, abi.ObjectPD, abi.MethodPDDestroy, arg{id: abi.AttrDestroyPDHandle, data: uint64(p.pd)}).errno
	}
	require.Equal(t, unix.EBUSY, dealloc(), "a key is in the PD")
	require.Equal(t, unix.ENOENT, other.destroyFirmwareObject(h).errno, "of another context")
	require.Equal(t, unix.EINVAL, p.destroyFirmwareObject(uint64(p.pd)).errno, "a PD")
	p.ok(p.destroyFirmwareObject(h))
	require.Equal(t, unix.ENOENT, p.destroyFirmwareObject(h).errno, "twice")

	set := func(at int, v uint32) []byte {
		cmd := mkeyCommand(p.pdn(), 4)
		binary.BigEndian.PutUint32(cmd[at:], v)
		return cmd
	}
	for why, c := range map[string]struct {
		cmd  []byte
		want unix.Errno
	}{
		"0 entries":           {mkeyCommand(p.pdn(), 0), unix.EINVAL},
		"53 entries":          {mkeyCommand(p.pdn(), 53), unix.EINVAL},
		"2^32-1 entries":      {mkeyCommand(p.pdn(), ^uint32(0)), unix.EINVAL},
		"no PD":               {mkeyCommand(0xffffff, 4), unix.EINVAL},
		"not free":            {set(0x10, 0x00008600), unix.EINVAL},
		"no UMR":              {set(0x10, 0x40000600), unix.EINVAL},
		"registered memory":   {set(0x10, 0x40008500), unix.EINVAL},
		"KSM":                 {set(0x10, 0x44008700), unix.EINVAL},
		"signature":           {set(0x1c, p.pdn()|1<<30), unix.EOPNOTSUPP},
		"size of a signature": {set(0x30, 4), unix.EOPNOTSUPP},
		"encryption":          {set(0x4c, 1<<27), unix.EOPNOTSUPP},
		"a list":              {set(0x60, 1), unix.EINVAL},
		"too short":           {mkeyCommand(p.pdn(), 4)[:0x40], unix.EINVAL},
		"another command":     {set(0, 0x05000000), unix.EINVAL},
		"16 bytes":            {mkeyCommand(p.pdn(), 4)[:16], unix.EINVAL},
	} {
		require.Equal(t, c.want, p.createMkey(c.cmd).errno, why)
	}
	p.ok(p.createMkey(mkeyCommand(p.pdn(), 52)[:0x50]))
	p.ok(p.createMkey(set(0x1c, p.pdn()|1<<24)))
	x := p.context()
	require.Len(t, slices.DeleteFunc(p.handles(), func(k kind) bool { return k != kindDEVX }), 2)
	before := x.cost
	require.Equal(t, unix.EINVAL, p.createMkey(mkeyCommand(p.pdn(), 53)).errno)
	require.Equal(t, before, x.cost, "nothing is charged for what was refused")
}

// handles returns the kinds of a program's objects.
func (p *program) handles() (list []kind) {
	for _, o := range p.context().objects {
		list = append(list, o.kind)
	}
	return list
}

// A program can have as many keys as its user may have memory of the device for.
func TestMkeysAreCharged(t *testing.T) {
	p := newRig(t).program()
	for size := 1 << 29; size > 1<<20; size /= 2 { // leaves little of the user's memory
		for p.s.engine.Charge(p.p.uid, nic.Cost{Memory: size}) == nil {
		}
	}
	n := 0
	for ; ; n++ {
		if c := p.createMkey(mkeyCommand(p.pdn(), 52)); c.errno != 0 {
			require.Equal(t, unix.ENOMEM, c.errno)
			break
		}
		require.Less(t, n, int(p.context().limits.MaxMRs))
	}
	require.Greater(t, n, 10)
	p.ok(p.queryPort(p.ctx))
}
