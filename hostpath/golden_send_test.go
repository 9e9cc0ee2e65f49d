package hostpath

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/nicless/nicless/internal/vectors"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// num is a number. In JSON it is a number, or a string that begins with 0x.
type num uint64

func (n *num) UnmarshalJSON(b []byte) error {
	v, err := strconv.ParseUint(strings.Trim(string(b), `"`), 0, 64)
	*n = num(v)
	return err
}

type recordedSGE struct {
	Addr   num          `json:"addr"`
	Length uint32       `json:"length"`
	LKey   uint32       `json:"lkey"`
	Data   *vectors.Hex `json:"data"` // the bytes at Addr, for inline sends
}

type recordedWR struct {
	Opcode     string        `json:"opcode"`
	Flags      uint8         `json:"send_flags"`
	Imm        vectors.Hex   `json:"imm_or_inv_wire"`
	SGE        []recordedSGE `json:"sge"`
	RemoteAddr num           `json:"remote_addr"`
	RKey       uint32        `json:"rkey"`
	CompareAdd num           `json:"compare_add"`
	Swap       num           `json:"swap"`
	InvalRKey  uint32        `json:"invalidate_rkey"`
}

type recordedSend struct {
	QPN    uint32       `json:"qpn"`
	Blocks int          `json:"sq_wqe_cnt"`
	Stride int          `json:"sq_stride"`
	Index  uint64       `json:"sq_index"`
	SigAll int          `json:"sq_sig_all"`
	WR     []recordedWR `json:"wr"`

	MWType  uint8  `json:"mw_type"`
	MWRKey  uint32 `json:"mw_rkey"`
	NewRKey uint32 `json:"new_rkey"`
	Bind    *struct {
		LKey   uint32 `json:"lkey"`
		Addr   num    `json:"addr"`
		Length num    `json:"length"`
		Access uint32 `json:"access"`
	} `json:"bind"`

	AH *struct {
		SGIDIndex    uint8       `json:"sgid_index"`
		SL           uint8       `json:"sl"`
		HopLimit     uint8       `json:"hop_limit"`
		TrafficClass uint8       `json:"traffic_class"`
		FlowLabel    uint32      `json:"flow_label"`
		DMAC         vectors.Hex `json:"dmac_from_kernel"`
		DGID         vectors.Hex `json:"dgid"`
	} `json:"ah"`
	RemoteQPN  uint32 `json:"remote_qpn"`
	RemoteQKey uint32 `json:"remote_qkey"`
}

type recordedWQEs struct {
	WQEs []struct {
		Index uint64      `json:"index"`
		DS    int         `json:"ds"`
		Bytes vectors.Hex `json:"bytes"`
	} `json:"wqes"`
	Record   vectors.Hex `json:"dbrec_sq"`
	Register vectors.Hex `json:"uar_first_8"`
}

// verbs names the operations as the recordings do.
var verbs = map[string]Op{
	"RDMA_WRITE": OpWrite, "RDMA_WRITE_WITH_IMM": OpWriteImm, "RDMA_READ": OpRead,
	"SEND": OpSend, "SEND_WITH_IMM": OpSendImm, "SEND_WITH_INV": OpSendInval,
	"ATOMIC_CMP_AND_SWP": OpCompareSwap, "ATOMIC_FETCH_AND_ADD": OpFetchAdd,
	"LOCAL_INV": OpLocalInval, "BIND_MW": OpBindMW,
}

const verbsInline = 8 // IBV_SEND_INLINE

// request turns a recorded work request into ours.
func (in *recordedSend) request(t *testing.T, r *recordedWR) SendWR {
	t.Helper()
	op, ok := verbs[r.Opcode]
	require.True(t, ok, "opcode %q", r.Opcode)
	wr := SendWR{
		ID: 1, Op: op, Flags: Flags(r.Flags &^ verbsInline), Imm: be.Uint32(r.Imm),
		RemoteAddr: uint64(r.RemoteAddr), RKey: r.RKey,
	}
	for _, s := range r.SGE {
		if r.Flags&verbsInline == 0 {
			require.Nil(t, s.Data)
			wr.SGE = append(wr.SGE, SGE{Addr: uint64(s.Addr), Length: s.Length, LKey: s.LKey})
			continue
		}
		require.NotNil(t, s.Data)
		require.Len(t, *s.Data, int(s.Length))
		wr.Data = append(wr.Data, *s.Data...)
	}
	switch op {
	case OpCompareSwap:
		wr.SwapAdd, wr.Compare = uint64(r.Swap), uint64(r.CompareAdd)
	case OpFetchAdd:
		wr.SwapAdd, wr.Compare = uint64(r.CompareAdd), uint64(r.Swap)
	case OpSendInval, OpLocalInval:
		wr.RKey = r.InvalRKey
	case OpBindMW:
		wr.Bind = &Bind{
			Type: in.MWType, MW: in.MWRKey, RKey: in.NewRKey, LKey: in.Bind.LKey,
			Addr: uint64(in.Bind.Addr), Length: uint64(in.Bind.Length), Access: in.Bind.Access,
		}
	}
	if ah := in.AH; ah != nil {
		av := (&RoCE{
			V2:        ah.SGIDIndex%2 == 1, // a kernel lists each address as v1, then as v2
			SGIDIndex: ah.SGIDIndex, SL: ah.SL, TrafficClass: ah.TrafficClass, HopLimit: ah.HopLimit,
			FlowLabel: ah.FlowLabel, MAC: [6]byte(ah.DMAC), GID: [16]byte(ah.DGID),
		}).AV()
		wr.To = &Address{AV: av, QPN: in.RemoteQPN, QKey: in.RemoteQKey}
	}
	return wr
}

// A player replays the recordings of one queue after another.
type player struct {
	sq                *SQ
	ring, record, uar []byte
	blocks            int
}

func newPlayer(t *testing.T, in *recordedSend, tr Transport) *player {
	t.Helper()
	m := newMemory(t, in.Blocks*64+4096)
	p := &player{ring: m.take(in.Blocks * 64), record: m.take(8), uar: m.take(512), blocks: in.Blocks}
	var err error
	p.sq, err = NewSQ(SQConfig{
		Ring: p.ring, Record: p.record, Register: p.uar,
		QPN: in.QPN, Transport: tr, SigAll: in.SigAll != 0, MaxInline: wqe.MaxInline, MaxSGE: 62,
	})
	require.NoError(t, err)
	return p
}

// moveTo makes the block with this count the next one to post to. All work before it is
// complete from then on.
func (p *player) moveTo(count uint64) {
	q := p.sq
	q.next, q.seen, q.rung = count, count, count
	q.posted.Publish(count)
	q.freed.Publish(count)
}

func (p *player) play(t *testing.T, in *recordedSend, want *recordedWQEs) {
	t.Helper()
	if p.sq.next != in.Index {
		// Some recorded WQEs were not kept. Whether the previous WQE changed a key is then
		// known only from the fence of this WQE.
		p.sq.nextFence = 0
		if f := want.WQEs[0].Bytes[11] & wqe.FenceMask; f == wqe.FenceSmall {
			p.sq.nextFence = wqe.FenceSmall
		}
	}
	fence := p.sq.nextFence
	p.moveTo(in.Index)
	p.sq.nextFence = fence
	half := int(p.sq.half) * 256
	clear(p.ring) // the recorder did the same
	clear(p.uar)

	var list []SendWR
	for i := range in.WR {
		list = append(list, in.request(t, &in.WR[i]))
	}
	n, err := p.sq.PostList(list)
	require.NoError(t, err)
	require.Equal(t, len(list), n)

	// The whole ring is compared, to find any byte that must not be written.
	ring := make([]byte, len(p.ring))
	for _, w := range want.WQEs {
		require.Len(t, []byte(w.Bytes), w.DS*wqe.UnitSize)
		for i, b := range w.Bytes {
			ring[(int(w.Index)*64+i)%len(ring)] = b
		}
	}
	if !bytes.Equal(ring, p.ring) {
		require.Equal(t, hex.Dump(ring), hex.Dump(p.ring), "ring")
	}
	require.Equal(t, []byte(want.Record), p.record[4:], "record")
	require.Equal(t, make([]byte, 4), p.record[:4], "the receive word is not ours")
	require.Equal(t, []byte(want.Register), p.uar[half:half+8], "register")
	clear(p.uar[half : half+8])
	require.Equal(t, make([]byte, len(p.uar)), p.uar, "one doorbell, 8 bytes")
}

// replay posts the work requests that libmlx5 posted when the file was recorded. It requires
// the same bytes in the ring, the record and the register as libmlx5 wrote.
func replay(t *testing.T, file string) {
	players := map[string]*player{}
	vectors.Recorded(t, file, func(t *testing.T, r vectors.Recording) {
		var in recordedSend
		var want recordedWQEs
		vectors.Decode(t, r.Inputs, &in)
		vectors.Decode(t, r.Expected, &want)
		require.Equal(t, wqe.BlockSize, in.Stride)
		for _, tr := range in.transports() {
			dir := strings.Split(t.Name(), "/")[1]
			key := fmt.Sprint(dir, in.QPN, in.Blocks, in.SigAll, tr)
			if players[key] == nil {
				players[key] = newPlayer(t, &in, tr)
			}
			players[key].play(t, &in, &want)
		}
	})
}

// transports lists the transports on which the request gives the same WQE: RC and UC have
// the same layout.
func (in *recordedSend) transports() []Transport {
	if in.AH != nil {
		return []Transport{UD}
	}
	for i := range in.WR {
		if !ops[verbs[in.WR[i].Opcode]].transports.Has(UC) {
			return []Transport{RC}
		}
	}
	return []Transport{RC, UC}
}

func TestGoldenSQRC(t *testing.T)   { replay(t, "libmlx5-sq-rc") }
func TestGoldenSQWrap(t *testing.T) { replay(t, "libmlx5-sq-wrap") }
func TestGoldenSQUCUD(t *testing.T) { replay(t, "libmlx5-sq-uc-ud") }
