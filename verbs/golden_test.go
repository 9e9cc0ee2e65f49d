package verbs

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nicless/nicless/field/devx"
	"github.com/nicless/nicless/internal/vectors"
	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Recorded calls of libibverbs and libmlx5 to a device, with the answers of that device.

type recordedAttr struct {
	ID    uint16 `json:"id"`
	Len   int    `json:"len"`
	Flags int    `json:"flags"`
	Data  string `json:"data"`
	Elem  any    `json:"elem"`
}

type recordedCall struct {
	Object   string                 `json:"object"`
	ObjectID uint16                 `json:"object_id"`
	Method   string                 `json:"method"`
	MethodID uint16                 `json:"method_id"`
	Length   int                    `json:"hdr_length"`
	Driver   int                    `json:"driver_id"`
	Attrs    []recordedAttr         `json:"attrs"`
	In       map[string]vectors.Hex `json:"in"`
	WriteCmd string                 `json:"write_cmd"`
}

type recordedResult struct {
	Result string            `json:"result"`
	Out    map[string]string `json:"out"`
}

// A gap is bytes of an answer that differ from the recording, and why.
type gap struct {
	from, to int
	why      string
}

const (
	ownNumber = "numbers and handles are each device's own"
	ownLimit  = "this device's limit"
)

var ofDevice = []gap{
	{52, 56, ownLimit}, {60, 64, "no flow steering, checksums and path migration"}, {72, 76, ownLimit}, {80, 88, ownLimit},
	{96, 100, ownLimit}, {120, 124, ownLimit}, {132, 144, ownLimit}, {156, 160, ownLimit},
}

// differs lists everything that may differ, by call and attribute.
var differs = map[string][]gap{
	"GET_CONTEXT 0x1001":             {{68, 72, "the null key"}, {36, 40, "no page of the core clock, which the library of the programs reads in another way"}, {0, 4, ownNumber}},
	"DEVX_OTHER 0x1001":              {{16, 16 + devx.CapsSize, "the recorded device answers that it has no capabilities"}},
	"INVOKE_WRITE 0x1 0x1":           ofDevice,
	"INVOKE_WRITE 0x80000001 0x1":    append(ofDevice[:len(ofDevice):len(ofDevice)], gap{288, 296, "device memory"}, gap{296, 300, "memory on demand"}, gap{184, 208, "memory on demand"}, gap{216, 224, "the device clock"}, gap{224, 232, "as at 60"}),
	"INVOKE_WRITE 0x80000001 0x1001": {{32, 40, "completions can be compressed"}, {60, 61, "also in entries of 128 bytes"}, {100, 102, "streams of DC"}},
	"QUERY_PORT 0x1":                 {{16, 20, "the GID table is longer"}, {28, 29, "datagrams of 4096 bytes are possible"}},
	"UAR_OBJ_ALLOC 0x1002":           {{0, 8, ownNumber}},
	"UAR_OBJ_ALLOC 0x1004":           {{0, 4, ownNumber}},
	"INVOKE_WRITE 0x19 0x1":          {{64, 68, "as for QP_CREATE"}, {68, 84, "some of these were made by calls that the recording leaves out"}},
	"CQ_DESTROY 0x1":                 {{0, 4, "nothing is sent here, so there was no completion event"}},
	"INVOKE_WRITE 0x3 0x1":           {{0, 4, ownNumber}},
	"INVOKE_WRITE 0x3 0x1001":        {{0, 4, ownNumber}},
	"INVOKE_WRITE 0x9 0x1":           {{0, 12, ownNumber}},
	"INVOKE_WRITE 0x5 0x1":           {{0, 4, ownNumber}},
	"INVOKE_WRITE 0x5 0x1001":        {{4, 10, "Ethernet address, which is derived from the GUID"}},
	"INVOKE_WRITE 0x11 0x1":          {{0, 4, "a descriptor"}},
	"CQ_CREATE 0x1001":               {{0, 4, ownNumber}},
	"QP_CREATE 0xd":                  {{0, 4, "as asked for, rather than in blocks, of which a WQE may take several"}},
	"QP_CREATE 0xe":                  {{0, 4, ownNumber}},
	"SRQ_CREATE 0x1001":              {{0, 4, ownNumber}},
	"SRQ_CREATE 0xd":                 {{0, 4, ownNumber}},
	"QUERY_GID_ENTRY 0x3":            {{0, 16, "addresses are derived from the GUID"}},
}

// A player repeats the calls of one recorded program.
type player struct {
	*rig
	ctx     uint64
	handles map[string]uint64 // this device's handles, by kind and recorded handle
	pages   map[uint32]uint32 // this device's UAR pages, by recorded page
}

func newPlayer(t *testing.T) *player {
	r := newRig(t)
	d := newDevice(0, "nicless0", 0x5a4e4cfffe000001, pciPlace{}) // the GUID of the recorded device
	r.s.devices[0] = d
	r.p.net = &netns{home: interfaceLo, held: 1, slots: []slot{{address: addressOf(t, "lo", "127.0.0.1/8"), present: true}}}
	h, body, files := r.request(opOpen, 0, u64s(0))
	require.Zero(t, h.error)
	r.files[1] = files[0]
	return &player{rig: r, ctx: le.Uint64(body), handles: make(map[string]uint64), pages: make(map[uint32]uint32)}
}

// handle returns this device's handle for a recorded one. Of calls of the same form only one
// was recorded, so the recording lacks the calls that made some objects. handle makes an
// object that is missing.
func (p *player) handle(k kind, recorded uint64) uint64 {
	name := fmt.Sprint(k, recorded)
	if h, ok := p.handles[name]; ok {
		return h
	}
	q := &program{rig: p.rig, ctx: p.ctx, at: 0x100000000 + recorded<<32, async: p.descriptor(5)}
	x := p.s.context(p.ctx)
	var c answer
	switch k {
	case kindPD:
		c = p.write(p.ctx, abi.CmdAllocPD, make([]byte, abi.AllocPDSize), abi.AllocPDRespSize)
		c.value = map[uint16]uint64{0: uint64(le.Uint32(p.ok(c).bytes[abi.AttrCoreOut]))}
	case kindUAR:
		c = p.allocUAR(p.ctx)
		c.value[0] = p.ok(c).value[abi.MLX5AttrUARObjAllocHandle]
	case kindCQ:
		q.uar = p.page(1 << 20)
		c = q.createCQ(15, 0)
	case kindQP:
		cq := p.handle(kindCQ, 1<<20+recorded)
		q.uar = p.page(1 << 20)
		q.pd = uint32(p.handle(kindPD, 1<<20))
		c = q.createQP(abi.QPTRC, cq)
	case kindMR:
		p.share(q.at, pageSize)
		c = q.regMR(q.at, pageSize, q.at, uint32(p.handle(kindPD, 1<<20)), abi.AccessLocalWrite)
		c.value = map[uint16]uint64{0: uint64(le.Uint32(p.ok(c).bytes[abi.AttrCoreOut]))}
	default:
		require.Fail(p, "cannot be made", "%v %d", k, recorded)
	}
	p.ok(c)
	require.NotNil(p, x.objects[uint32(c.value[0])])
	p.handles[name] = c.value[0]
	return c.value[0]
}

// clear destroys the objects that use an object: the recording lacks the calls that destroyed
// them.
func (p *player) clear(h uint32) {
	x := p.s.context(p.ctx)
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, o := range x.objects {
		if slices.Contains(o.uses, x.objects[h]) {
			require.NoError(p, x.remove(o))
		}
	}
}

// descriptor makes a descriptor for events if the recording lacks the call that made it.
func (p *player) descriptor(recorded uint64) uint64 {
	if p.files[recorded] == nil {
		c := p.ok(p.allocAsync(p.ctx))
		p.files[recorded] = p.files[c.value[0]]
		delete(p.files, c.value[0])
	}
	return recorded
}

func (p *player) page(recorded uint32) uint32 {
	if page, ok := p.pages[recorded]; ok {
		return page
	}
	h := p.handle(kindUAR, uint64(1<<21+recorded))
	p.pages[recorded] = uint32(p.s.context(p.ctx).objects[uint32(h)].self.(*uar).page) + firstUAR
	return p.pages[recorded]
}

// writeHandles says at which offset the request of a write command has a handle, and of what
// kind of object the handle is.
var writeHandles = map[uint32]struct {
	at   int
	kind kind
}{
	abi.CmdCreateAH: {abi.CreateAHPDHandle, kindPD}, abi.CmdRegMR: {abi.RegMRPDHandle, kindPD}, abi.CmdReregMR: {abi.ReregMRMRHandle, kindMR},
	abi.CmdAllocMW: {abi.AllocMWPDHandle, kindPD}, abi.CmdResizeCQ: {abi.ResizeCQCQHandle, kindCQ},
	abi.CmdQueryQP: {abi.QueryQPQPHandle, kindQP}, abi.CmdModifyQP: {abi.ModifyQPQPHandle, kindQP},
}

// translate converts recorded attributes to the attributes of a call to this device.
func (p *player) translate(m *method, call recordedCall) (args []arg) {
	command, _ := strconv.ParseUint(strings.TrimPrefix(call.WriteCmd, "0x"), 16, 32)
	for _, a := range call.Attrs {
		f := m.field(a.ID)
		require.NotNil(p, f, "attribute %#x", a.ID)
		data, _ := strconv.ParseUint(strings.TrimPrefix(a.Data, "0x"), 16, 64)
		b := arg{id: a.ID, optional: a.Flags&abi.AttrFMandatory == 0}
		switch f.shape {
		case handle:
			b.data = p.handle(f.kind, data)
		case destroyedHandle:
			b.data = p.handle(f.kind, data)
			p.clear(uint32(b.data))
		case fd:
			b.data = p.descriptor(data)
		case newHandle, newFD:
		case constant:
			b = number(a.ID, data)
		case out:
			b.out = a.Len
		default:
			b.in = recordedBytes(call, a, data)
			require.Len(p, b.in, a.Len, "attribute %#x", a.ID)
		}
		switch {
		case a.ID == abi.AttrCoreIn && command != 0:
			if w, ok := writeHandles[uint32(command)]; ok {
				le.PutUint32(b.in[w.at:], uint32(p.handle(w.kind, uint64(le.Uint32(b.in[w.at:])))))
			}
			if command == abi.CmdRegMR {
				lo, size := (&area{addr: le.Uint64(b.in[abi.RegMRStart:]), n: le.Uint64(b.in[abi.RegMRLength:])}).pages()
				p.share(lo, size)
			}
		case a.ID == abi.AttrUHWIn && call.Method == "GET_CONTEXT":
			// The recorded device granted firmware commands. Here libmlx5 would be refused and
			// would ask again without them.
			b.in[abi.MLX5AllocUcontextReqV2Flags] &^= abi.MLX5AllocUctxDEVX
		case a.ID == abi.AttrUHWIn && call.Method == "CQ_CREATE":
			le.PutUint16(b.in[abi.MLX5CreateCQUARPageIndex:], uint16(p.page(uint32(le.Uint16(b.in[abi.MLX5CreateCQUARPageIndex:])))))
		case a.ID == abi.AttrUHWIn && call.Method == "QP_CREATE":
			le.PutUint32(b.in[abi.MLX5CreateQPBFRegIndex:], p.page(le.Uint32(b.in[abi.MLX5CreateQPBFRegIndex:])))
		}
		args = append(args, b)
	}
	return args
}

func recordedBytes(call recordedCall, a recordedAttr, data uint64) []byte {
	if a.Len <= 8 {
		return u64s(data)[:a.Len]
	}
	name := map[uint16]string{abi.AttrCoreIn: "core_in", abi.AttrCreateQPCap: "cap", abi.AttrUHWIn: "uhw_in"}[a.ID]
	if call.Object == "MLX5_DEVX" {
		name = "devx_in"
	}
	return bytes.Clone(call.In[name])
}

// learn records this device's number for each number in a recorded answer.
func (p *player) learn(m *method, call recordedCall, want recordedResult, got answer) {
	for id, text := range want.Out {
		var n uint64
		id64, _ := strconv.ParseUint(strings.TrimPrefix(id, "0x"), 16, 16)
		if _, err := fmt.Sscanf(text, "handle %d", &n); err != nil {
			continue
		}
		switch f := m.field(uint16(id64)); f.shape {
		case newHandle:
			p.handles[fmt.Sprint(f.kind, n)] = got.value[f.id]
		case newFD:
			p.files[n] = p.files[got.value[f.id]]
			delete(p.files, got.value[f.id])
		}
	}
	word := func(id uint16) uint32 {
		b, _ := hex.DecodeString(want.Out[fmt.Sprintf("%#x", id)])
		return le.Uint32(b)
	}
	switch call.WriteCmd {
	case "0x3":
		p.handles[fmt.Sprint(kindPD, word(abi.AttrCoreOut))] = uint64(le.Uint32(got.bytes[abi.AttrCoreOut]))
	case "0x9":
		p.handles[fmt.Sprint(kindMR, word(abi.AttrCoreOut))] = uint64(le.Uint32(got.bytes[abi.AttrCoreOut]))
	case "0x5":
		p.handles[fmt.Sprint(kindAH, word(abi.AttrCoreOut))] = uint64(le.Uint32(got.bytes[abi.AttrCoreOut]))
	}
	if call.Method == "UAR_OBJ_ALLOC" {
		p.pages[word(abi.MLX5AttrUARObjAllocPageID)] = le.Uint32(got.bytes[abi.MLX5AttrUARObjAllocPageID])
	}
}

func TestRecordedCalls(t *testing.T) {
	players := make(map[string]*player)
	seen := make(map[string]bool)
	vectors.Recorded(t, "libmlx5-ioctl", func(st *testing.T, v vectors.Recording) {
		var call recordedCall
		var want recordedResult
		vectors.Decode(st, v.Inputs, &call)
		vectors.Decode(st, v.Expected, &want)
		name, _, _ := cutNumber(v.Name)
		p := players[name]
		if p == nil {
			p = newPlayer(t)
			players[name] = p
		}
		p.TB = st
		m := methods[[2]uint16{call.ObjectID, call.MethodID}]
		require.NotNil(st, m)
		got := p.ioctl(p.ctx, call.ObjectID, call.MethodID, p.translate(m, call)...)
		result := "ok"
		if got.errno != 0 {
			result = unix.ErrnoName(got.errno)
		}
		require.Equal(st, want.Result, result)
		key := strings.TrimSuffix(call.Method+" "+call.WriteCmd, " ")
		for id, text := range want.Out {
			n, err := strconv.ParseUint(strings.TrimPrefix(id, "0x"), 16, 16)
			require.NoError(st, err)
			if strings.HasPrefix(text, "handle ") {
				require.Contains(st, got.value, uint16(n), id)
				continue
			}
			b, err := hex.DecodeString(text)
			require.NoError(st, err)
			mine := bytes.Clone(got.bytes[uint16(n)])
			b = append(b, make([]byte, max(0, len(mine)-len(b)))...) // recordings of long answers were cut
			require.Len(st, mine, len(b), id)
			for _, s := range differs[key+" "+id] {
				seen[key+" "+id] = true
				clear(mine[s.from:s.to])
				clear(b[s.from:s.to])
			}
			for i := range b {
				require.Equal(st, b[i], mine[i], "%s %s: byte %d", key, id, i)
			}
		}
		if want.Result == "ok" {
			p.learn(m, call, want, got)
		}
	})
	for key := range differs {
		if !seen[key] {
			t.Logf("%s: not in the recordings", key)
		}
	}
}

// cutNumber splits a name of the form program-NNN-rest.
func cutNumber(name string) (program, rest string, ok bool) {
	for i := 0; i+4 < len(name); i++ {
		if name[i] == '-' && name[i+4] == '-' {
			if _, err := strconv.Atoi(name[i+1 : i+4]); err == nil {
				return name[:i], name[i+5:], true
			}
		}
	}
	return name, "", false
}

// The rings of recorded queue pairs are found where libmlx5 puts them, and the answer says how
// long the receive queue is.
func TestRecordedRings(t *testing.T) {
	types := map[string]uint64{"RC": abi.QPTRC, "UC": abi.QPTUC, "UD": abi.QPTUD}
	p := newRig(t).program()
	cq := p.ok(p.createCQ(15, 0)).value[0]
	vectors.Recorded(t, "libmlx5-create-qp", func(t *testing.T, v vectors.Recording) {
		var in struct {
			Type string    `json:"qp_type"`
			Cap  [5]uint32 `json:"cap"`
		}
		var want struct {
			SQCount  uint32    `json:"sq_wqe_cnt"`
			SQStride uint32    `json:"sq_stride"`
			RQCount  uint32    `json:"rq_wqe_cnt"`
			RQStride uint32    `json:"rq_stride"`
			Offset   uint64    `json:"sq_offset_from_rq"`
			Cap      [5]uint32 `json:"cap_out"`
		}
		vectors.Decode(t, v.Inputs, &in)
		vectors.Decode(t, v.Expected, &want)
		shift := uint32(0)
		for 1<<shift < want.RQStride {
			shift++
		}
		at := p.ring(1 << 20)
		p.at += 8 << 20
		d := createQPDriver(at, p.ring(pageSize), want.SQCount, want.RQCount, shift, abi.MLX5QPFlagUARPageIndex, p.uar)
		req, size, err := qpRings(p.s.context(p.ctx), d, false)
		require.NoError(t, err)
		if want.RQCount > 0 {
			require.Equal(t, at, req.RQ)
		}
		require.Equal(t, at+want.Offset, req.SQ)
		require.Equal(t, want.Offset+uint64(want.SQCount*want.SQStride), size)
		require.Equal(t, max(want.SQCount, 1), uint32(1)<<req.LogSQ)
		require.Equal(t, want.RQCount == 0, req.NoReceive == 1)
		require.Equal(t, max(want.RQCount, 1), uint32(1)<<req.LogRQ)
		if want.RQCount > 0 {
			require.Equal(t, want.RQStride, uint32(1)<<req.LogRQStride)
		}
		q := p.ok(p.createQPWith(types[in.Type], cq, in.Cap[:], d))
		require.Equal(t, want.Cap[1], le.Uint32(q.bytes[abi.AttrCreateQPRespCap][abi.QPCapMaxRecvWR:]), "max_recv_wr")
		c := p.ok(p.write(p.ctx, abi.CmdQueryQP, queryQPRequest(uint32(q.value[abi.AttrCreateQPHandle])), abi.QueryQPRespSize))
		require.Equal(t, want.Cap[1], le.Uint32(c.bytes[abi.AttrCoreOut][abi.QueryQPRespMaxSendWR+abi.QPCapMaxRecvWR:]))
		p.ok(p.destroyQP(q.value[0]))
	})
}
