package engine

import (
	"crypto/rand"
	"testing"

	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// refused requires that a request is refused with this code and these words.
func (h *host) refused(code control.Code, text string, op control.Op, req control.Message, mem *shm.Region) {
	h.Helper()
	err := h.try(op, req, &control.Empty{}, mem)
	require.ErrorIs(h, err, &control.Error{Code: code})
	require.ErrorContains(h, err, text)
}

// population counts the objects of the engine and of the client, and their users.
func (h *host) population() map[string]int {
	e, c := h.e, h.c
	m := map[string]int{
		"keys": e.Keys.Used, "qps": len(e.QPs), "cqs": len(e.CQs), "running": len(e.Running), "stalled": e.Stalled,
		"armable": e.Arm.CQs, "clients": len(e.Clients), "client regions": len(c.Regions), "client pds": len(c.PDs),
		"client mrs": len(c.MRs), "client cqs": len(c.CQs), "client qps": len(c.QPs), "client channels": len(c.Channels),
		"bytes": int(c.Bytes), "srqs": len(e.SRQs), "client srqs": len(c.SRQs), "moving": underWay(e),
		"engine xrcds": len(e.XRCDs), "client xrcds": len(c.XRCDs),
	}
	for _, s := range c.SRQs {
		m["srq users"] += s.Users
	}
	for _, k := range c.MRs {
		m["windows"] += k.Windows
	}
	for _, r := range c.Regions {
		m["region users"] += r.Users
	}
	for _, p := range c.PDs {
		m["pd users"] += p.Users
	}
	return m
}

func TestRegionRefusals(t *testing.T) {
	r := newRig(t, Config{Limits: Limits{Regions: 3, Bytes: hostSize + 12288}})
	h := r.host("a")
	mem, err := shm.Heap(4096)
	require.NoError(t, err)
	add := func(code control.Code, text string, addr uint64, mem *shm.Region) {
		t.Helper()
		_, err := h.c.AddRegion(addr, mem)
		refusal := new(control.Error)
		require.ErrorAs(t, err, &refusal)
		require.Equal(t, code, refusal.Code)
		require.Contains(t, refusal.Text, text)
	}
	open, err := shm.Create("holes", 4096)
	require.NoError(t, err)
	defer open.Close()
	before := h.population()
	add(control.CodeInvalid, "page size", 0x1001, mem)
	add(control.CodeInvalid, "end of the address space", ^uint64(4095), mem)
	add(control.CodeMemory, "can still lose pages", 0x1000, open)
	h.refused(control.CodeUnsupported, "adds memory of its own", control.OpCreateRegion, &control.RegionSize{Size: 4096}, nil)
	h.refused(control.CodeNotFound, "0x4711", control.OpDropRegion, &control.RegionID{ID: 0x4711}, nil)
	h.refused(control.CodeNotFound, "0x4711", control.OpPlaceRegion, &control.Placement{ID: 0x4711, Addr: 0x1000}, nil)
	h.refused(control.CodeNotFound, "region without a place", control.OpPlaceRegion, &control.Placement{ID: h.region, Addr: 0x1000}, nil)
	require.Equal(t, before, h.population())

	first := h.addRegion(h.base+hostSize, mem) // right after the host's region
	second := h.addRegion(h.base-4096, mem)    // right before it
	big, err := shm.Heap(8192)
	require.NoError(t, err)
	add(control.CodeLimit, "this client has", 0x1000, big)
	add(control.CodeLimit, "its limit", 0x1000, mem)
	h.call(control.OpDropRegion, &control.RegionID{ID: first}, &control.Empty{})
	third := h.addRegion(0x1000, mem)
	h.call(control.OpDropRegion, &control.RegionID{ID: second}, &control.Empty{})
	h.call(control.OpDropRegion, &control.RegionID{ID: third}, &control.Empty{})
	h.refused(control.CodeNotFound, "", control.OpDropRegion, &control.RegionID{ID: third}, nil)
	require.Equal(t, before, h.population())
}

// A client that has mapped new memory over memory of a key can use both: the key keeps what it has.
func TestRegionsAtOneAddress(t *testing.T) {
	r := newRig(t, Config{})
	h := r.host("a")
	var mems []*shm.Region
	var ids []uint32
	for range 3 {
		mem, err := shm.Heap(8192)
		require.NoError(t, err)
		ids, mems = append(ids, h.addRegion(h.base+4096, mem)), append(mems, mem)
	}
	found := func(addr uint64) []byte {
		t.Helper()
		var b []byte
		r.e.Do(func() { _, b, _ = h.c.At("test", addr, 4096) })
		return b
	}
	require.Same(t, &mems[2].Bytes()[4096], &found(h.base + 8192)[0])
	k := h.reg(h.pd, h.base+8192, 4096, control.AccessLocalWrite)
	fourth, err := shm.Heap(8192)
	require.NoError(t, err)
	id := h.addRegion(h.base+4096, fourth)
	var ans control.Key
	h.call(control.OpReregMR, &control.ReregMR{Key: k, What: control.ReregAccess, Access: control.AccessRemoteRead}, &ans)
	require.Same(t, &mems[2].Bytes()[4096], &r.e.Keys.Find(ans.Key).Mem[0], "also when its rights change")
	h.call(control.OpDeregMR, &ans, &control.Empty{})
	h.call(control.OpDropRegion, &control.RegionID{ID: id}, &control.Empty{})
	require.Same(t, &h.mem.Bytes()[0], &found(h.base)[0], "nothing else is there")
	h.call(control.OpDropRegion, &control.RegionID{ID: ids[2]}, &control.Empty{})
	h.call(control.OpDropRegion, &control.RegionID{ID: ids[0]}, &control.Empty{})
	require.Same(t, &mems[1].Bytes()[0], &found(h.base + 4096)[0])
	h.call(control.OpDropRegion, &control.RegionID{ID: ids[1]}, &control.Empty{})
	require.Same(t, &h.mem.Bytes()[4096], &found(h.base + 4096)[0])
}

func TestMRRefusals(t *testing.T) {
	r := newRig(t, Config{Limits: Limits{MRs: 2, PDs: 2}})
	h := r.host("a")
	before := h.population()
	reg := func(code control.Code, text string, m control.MR) {
		t.Helper()
		if m.PDN == 0 {
			m.PDN = h.pd
		}
		h.refused(code, text, control.OpRegMR, &m, nil)
	}
	end := h.base + hostSize
	reg(control.CodeNotFound, "PD 0x99", control.MR{PDN: 0x99, Addr: h.base, Length: 1})
	reg(control.CodeInvalid, "0 bytes", control.MR{Addr: h.base})
	reg(control.CodeInvalid, "not inside", control.MR{Addr: end, Length: 1})
	reg(control.CodeInvalid, "not inside", control.MR{Addr: end - 1, Length: 2})
	reg(control.CodeInvalid, "not inside", control.MR{Addr: h.base - 1, Length: 2})
	reg(control.CodeInvalid, "not inside", control.MR{Addr: h.base, Length: hostSize + 1})
	reg(control.CodeInvalid, "not inside", control.MR{Addr: h.base, Length: ^uint64(0)})
	reg(control.CodeInvalid, "access 0x40; known rights are local write", control.MR{Addr: h.base, Length: 1, Access: 0x40})
	reg(control.CodeInvalid, "local write", control.MR{Addr: h.base, Length: 1, Access: control.AccessRemoteWrite})
	reg(control.CodeInvalid, "local write", control.MR{Addr: h.base, Length: 1, Access: control.AccessRemoteAtomic})
	reg(control.CodeInvalid, "end of the address space", control.MR{Addr: h.base, Length: 2, IOVA: ^uint64(0)})
	h.refused(control.CodeNotFound, "0x100", control.OpDeregMR, &control.Key{Key: 0x100}, nil)
	h.refused(control.CodeNotFound, "", control.OpDeallocPD, &control.PD{PDN: 0x99}, nil)
	require.Equal(t, before, h.population())

	a, b := h.reg(h.pd, end-1, 1, 0), h.reg(h.pd, h.base, hostSize, control.AccessAll)
	reg(control.CodeLimit, "limit", control.MR{Addr: h.base, Length: 1})
	h.refused(control.CodeBusy, "2 keys and queues", control.OpDropRegion, &control.RegionID{ID: h.region}, nil)
	h.refused(control.CodeBusy, "2 keys and queues", control.OpDeallocPD, &control.PD{PDN: h.pd}, nil)
	h.refused(control.CodeNotFound, "", control.OpDeregMR, &control.Key{Key: a ^ 1}, nil)
	other := r.host("b")
	other.refused(control.CodeNotFound, "", control.OpDeregMR, &control.Key{Key: a}, nil)
	_ = other.c.Close()
	for _, k := range []uint32{a, b} {
		h.call(control.OpDeregMR, &control.Key{Key: k}, &control.Empty{})
		h.refused(control.CodeNotFound, "", control.OpDeregMR, &control.Key{Key: k}, nil)
	}
	require.Equal(t, before, h.population())
	h.allocPD()
	h.refused(control.CodeLimit, "protection domains", control.OpAllocPD, &control.Empty{}, nil)
}

func TestCQRefusals(t *testing.T) {
	r := newRig(t, Config{Limits: Limits{CQs: 1, Channels: 1}})
	h := r.host("a")
	before := h.population()
	_, buf := h.take(4096)
	_, rec := h.take(64)
	good := control.CQ{Buf: buf, DBRec: rec, LogSize: 2, LogCQE: 6}
	bad := func(code control.Code, text string, change func(*control.CQ)) {
		t.Helper()
		m := good
		change(&m)
		h.refused(code, text, control.OpCreateCQ, &m, nil)
	}
	bad(control.CodeInvalid, "2^23", func(m *control.CQ) { m.LogSize = 23 })
	bad(control.CodeInvalid, "2^255", func(m *control.CQ) { m.LogSize = 255 })
	bad(control.CodeInvalid, "2^5", func(m *control.CQ) { m.LogCQE = 5 })
	bad(control.CodeInvalid, "2^8", func(m *control.CQ) { m.LogCQE = 8 })
	bad(control.CodeInvalid, "0x8", func(m *control.CQ) { m.Flags = 8 })
	bad(control.CodeInvalid, "multiples", func(m *control.CQ) { m.Buf += 32 })
	bad(control.CodeInvalid, "multiples", func(m *control.CQ) { m.DBRec += 4 })
	bad(control.CodeInvalid, "UAR page 4", func(m *control.CQ) { m.UAR = 4 })
	bad(control.CodeInvalid, "CQ buffer", func(m *control.CQ) { m.Buf = h.base + hostSize - 64 })
	bad(control.CodeInvalid, "CQ buffer", func(m *control.CQ) { m.Buf, m.LogSize = h.base, 22 })
	bad(control.CodeInvalid, "doorbell record", func(m *control.CQ) { m.DBRec = h.base + hostSize })
	bad(control.CodeNotFound, "channel", func(m *control.CQ) { m.Channel = 77 })
	h.refused(control.CodeNotFound, "CQ", control.OpDestroyCQ, &control.CQN{CQN: 1}, nil)
	h.refused(control.CodeNotFound, "channel", control.OpDestroyChannel, &control.Channel{ID: 1 << 30}, nil)
	require.Equal(t, before, h.population())

	id, _ := h.channel()
	h.refused(control.CodeLimit, "channels", control.OpCreateChannel, &control.Empty{}, nil)
	good.Channel = id
	var c control.CQN
	h.call(control.OpCreateCQ, &good, &c)
	bad(control.CodeLimit, "completion queues", func(*control.CQ) {})
	h.refused(control.CodeBusy, "1 completion queue", control.OpDestroyChannel, &control.Channel{ID: id}, nil)
	h.refused(control.CodeBusy, "still used by 1 key or queue", control.OpDropRegion, &control.RegionID{ID: h.region}, nil)
	r.host("b").refused(control.CodeNotFound, "CQ", control.OpDestroyCQ, &c, nil)
	h.call(control.OpDestroyCQ, &c, &control.Empty{})
	h.call(control.OpDestroyChannel, &control.Channel{ID: id}, &control.Empty{})
	before["clients"]++
	require.Equal(t, before, h.population())
}

func TestQPRefusals(t *testing.T) {
	r := newRig(t, Config{Limits: Limits{QPs: 1}})
	h, other := r.host("a"), r.host("b")
	c, foreign := h.cq(control.CQ{LogSize: 2}), other.cq(control.CQ{LogSize: 2})
	before := h.population()
	_, sq := h.take(4096)
	_, rq := h.take(4096)
	_, rec := h.take(64)
	good := control.QP{PDN: h.pd, SendCQN: c.num, RecvCQN: c.num, UserIndex: 0xffffff, SQ: sq, RQ: rq, DBRec: rec,
		LogSQ: 4, LogRQ: 4, LogRQStride: 6, UAR: 3}
	bad := func(code control.Code, text string, change func(*control.QP)) {
		t.Helper()
		m := good
		change(&m)
		h.refused(code, text, control.OpCreateQP, &m, nil)
	}
	bad(control.CodeUnsupported, "type 4", func(m *control.QP) { m.Type = 4 })
	bad(control.CodeInvalid, "XRC with no_receive 0", func(m *control.QP) { m.Type = control.QPTypeXRC })
	bad(control.CodeInvalid, "no send queue, but", func(m *control.QP) { m.Scatter = 4 }) // the bit of NoSend
	bad(control.CodeInvalid, "doorbells 3", func(m *control.QP) { m.Doorbells = 3 })
	bad(control.CodeUnsupported, "type 9", func(m *control.QP) { m.Type = 9 })
	bad(control.CodeInvalid, "managed 2", func(m *control.QP) { m.Managed = 2 })
	bad(control.CodeInvalid, "SRQ", func(m *control.QP) { m.SRQN = 77 })
	bad(control.CodeNotFound, "SRQ", func(m *control.QP) { m.SRQN, m.NoReceive = 77, 1 })
	bad(control.CodeInvalid, "2^16", func(m *control.QP) { m.LogSQ = 16 })
	bad(control.CodeInvalid, "2^200", func(m *control.QP) { m.LogRQ = 200 })
	bad(control.CodeInvalid, "2^3 bytes", func(m *control.QP) { m.LogRQStride = 3 })
	bad(control.CodeInvalid, "2^11 bytes", func(m *control.QP) { m.LogRQStride = 11 })
	bad(control.CodeInvalid, "no_receive 2", func(m *control.QP) { m.NoReceive = 2 })
	bad(control.CodeInvalid, "signature_on 2", func(m *control.QP) { m.SignatureOn = 2 })
	bad(control.CodeInvalid, "0x1000000", func(m *control.QP) { m.UserIndex = 1 << 24 })
	bad(control.CodeInvalid, "UAR page 4", func(m *control.QP) { m.UAR = 4 })
	bad(control.CodeInvalid, "multiples", func(m *control.QP) { m.SQ += 16 })
	bad(control.CodeInvalid, "multiples", func(m *control.QP) { m.RQ += 16 })
	bad(control.CodeInvalid, "multiples", func(m *control.QP) { m.DBRec += 4 })
	bad(control.CodeNotFound, "PD", func(m *control.QP) { m.PDN = 1 << 20 })
	bad(control.CodeNotFound, "send CQ", func(m *control.QP) { m.SendCQN = foreign.num })
	bad(control.CodeNotFound, "receive CQ", func(m *control.QP) { m.RecvCQN = 0 })
	bad(control.CodeInvalid, "send queue", func(m *control.QP) { m.SQ = h.base + hostSize - 64 })
	bad(control.CodeInvalid, "receive queue", func(m *control.QP) { m.RQ = h.base + hostSize - 64 })
	bad(control.CodeInvalid, "doorbell record", func(m *control.QP) { m.DBRec = h.base - 8 })
	for _, op := range []control.Op{control.OpQueryQP, control.OpDestroyQP} {
		h.refused(control.CodeNotFound, "QP", op, &control.QPN{QPN: 5}, nil)
	}
	h.refused(control.CodeNotFound, "QP", control.OpModifyQP, &control.QPAttr{QPN: 5}, nil)
	require.Equal(t, before, h.population())

	var q control.QPN
	h.call(control.OpCreateQP, &good, &q)
	bad(control.CodeLimit, "queue pairs", func(*control.QP) {})
	// A queue pair counts as one user of an object, even if it uses the object for both of
	// its completion queues, or for two rings and a record.
	h.refused(control.CodeBusy, "still used by 1 queue pair", control.OpDestroyCQ, &control.CQN{CQN: c.num}, nil)
	h.refused(control.CodeBusy, "still used by 1 key or queue", control.OpDeallocPD, &control.PD{PDN: h.pd}, nil)
	h.refused(control.CodeBusy, "still used by 2 keys and queues", control.OpDropRegion, &control.RegionID{ID: h.region}, nil)
	for _, op := range []control.Op{control.OpQueryQP, control.OpDestroyQP} {
		other.refused(control.CodeNotFound, "QP", op, &q, nil)
	}
	other.refused(control.CodeNotFound, "QP", control.OpModifyQP, &control.QPAttr{QPN: q.QPN, Mask: control.AttrState, State: control.StateERR}, nil)
	h.call(control.OpDestroyQP, &q, &control.Empty{})
	require.Equal(t, before, h.population())
}

// Payloads of every wrong length, and operations that do not exist, are refused.
func TestRequestsOfTheWrongShape(t *testing.T) {
	r := newRig(t, Config{})
	h := r.host("a")
	before := h.population()
	mem, err := shm.Heap(4096)
	require.NoError(t, err)
	for op := control.OpHello; op <= control.OpOpenTarget; op++ {
		var m object.RequestMemory
		if op == control.OpCreateRegion {
			m.Region = mem
		}
		for n := range 100 {
			payload := make([]byte, n)
			if op == control.OpCreateRegion && n == 8 {
				payload[7] = 0x80 // too much
			}
			_, reply, err := h.c.Request(op, payload, m)
			if err == nil && n == 0 && (op == control.OpAllocPD || op == control.OpCreateChannel || op == control.OpOpenEvents || op == control.OpOpenXRCD || op == control.OpQueryPort) {
				if reply.Events != nil {
					_ = reply.Events.Close()
				}
				continue // these operations have no payload
			}
			if err == nil && n == 1 && op == control.OpWake {
				continue // 0 is a valid value
			}
			require.Error(t, err, "%v of %d zeros", op, n)
			require.ErrorAs(t, err, new(*control.Error))
		}
	}
	for _, op := range []control.Op{0, control.OpNextChange + 1, 0xffff} {
		h.refused(control.CodeUnsupported, op.String(), op, &control.Empty{}, nil)
	}
	before["client pds"]++
	before["client channels"]++
	before["client xrcds"]++
	before["engine xrcds"]++
	require.Equal(t, before, h.population())
}

func TestHello(t *testing.T) {
	h := newRig(t, Config{Limits: Limits{QPs: 7}}).host("a")
	good := control.Hello{Magic: control.Magic, Major: control.Major, Minor: 9, Features: 3, Name: "tester"}
	var w control.Welcome
	h.call(control.OpHello, &good, &w)
	require.Equal(t, h.d.GUID(), w.GUID)
	require.Equal(t, []uint64{uint64(control.Major), control.FeatureWake, 7}, []uint64{uint64(w.Major), w.Features, uint64(w.MaxQPs)})
	require.Contains(t, h.c.String(), "tester")
	bad := good
	bad.Magic++
	h.refused(control.CodeVersion, "magic", control.OpHello, &bad, nil)
	bad = good
	bad.Major++
	h.refused(control.CodeVersion, "protocol 3.9", control.OpHello, &bad, nil)
}

// Closing a client leaves nothing behind, whatever objects the client had. No request of
// the client is served afterwards.
func TestCloseLeavesNothing(t *testing.T) {
	r := newRig(t, Config{})
	other := r.host("other")
	before := other.population()
	h := r.host("h")
	id, _ := h.channel()
	c := h.cq(control.CQ{LogSize: 2, Channel: id})
	p, q := h.qp(control.QP{}, c, c), h.qp(control.QP{NoReceive: 1}, c, c)
	p.up(q)
	q.up(p)
	h.full(100, 1)
	q.post(ctrl(wqe.OpSend)) // waits for a receive
	r.settle()
	require.NoError(t, h.c.Close())
	require.NoError(t, h.c.Close())
	require.Equal(t, before, other.population())
	r.settle()
	require.ErrorIs(t, h.try(control.OpAllocPD, &control.Empty{}, &control.PD{}, nil), object.ErrClosed)
}

// Keys are not consecutive and never the terminator. Only the whole key matches.
func TestKeys(t *testing.T) {
	table := object.NewKeyTable(rand.Reader)
	seen := make(map[uint32]bool)
	near, last := 0, uint32(0)
	for range 5000 {
		m := new(object.Mkey)
		table.Add(m)
		if index := m.Key >> 8; index < 2 || index == 0xffffff || seen[index] {
			t.Fatalf("key %#x: reserved, or its index was given before", m.Key)
		}
		seen[m.Key>>8] = true
		if table.Find(m.Key) != m || table.Find(m.Key^1) != nil || table.Find(m.Key^0x80) != nil {
			t.Fatalf("key %#x is not what is found", m.Key)
		}
		if d := m.Key>>8 - last; d+16 < 32 {
			near++
		}
		last = m.Key >> 8
	}
	require.Less(t, near, 5, "keys that follow each other")
}

// The key table agrees with a map, through growth, removal and near collisions.
func TestKeyTableIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := object.NewKeyTable(rand.Reader)
		model := make(map[uint32]*object.Mkey)
		var keys []uint32
		put := func(key uint32) {
			if table.FindIndex(key) != nil {
				return
			}
			m := &object.Mkey{Key: key}
			if 2*(table.Used+1) > len(table.Slots) {
				table.Grow()
			}
			table.Put(object.KeySlot{Key: key, M: m})
			table.Used++
			model[key] = m
			keys = append(keys, key)
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(*rapid.T) {
				m := new(object.Mkey)
				table.Add(m)
				model[m.Key] = m
				keys = append(keys, m.Key)
			},
			// The search for these keys begins in one of a few slots, among them the last
			// slot of the table.
			"put": func(t *rapid.T) {
				key := rapid.Uint32Range(2<<8, 0xfffffeff).Draw(t, "key")
				for table.Home(key)+2&uint32(len(table.Slots)-1) > 4 {
					key += 1 << 8
				}
				if key>>8 > 1 && key>>8 != 0xffffff {
					put(key)
				}
			},
			"remove": func(t *rapid.T) {
				if len(keys) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(keys)-1).Draw(t, "which")
				table.Remove(keys[i])
				delete(model, keys[i])
				keys = append(keys[:i], keys[i+1:]...)
			},
			"remove unknown": func(t *rapid.T) {
				key := rapid.Uint32().Draw(t, "key")
				if model[key] == nil {
					table.Remove(key)
				}
			},
			"": func(t *rapid.T) {
				if table.Used != len(model) {
					t.Fatalf("used %d, model has %d", table.Used, len(model))
				}
				for key, m := range model {
					if table.Find(key) != m || table.FindIndex(key^0xff) != m || table.Find(key^0xff) != nil {
						t.Fatalf("key %#x is not found", key)
					}
				}
			},
		})
	})
}
