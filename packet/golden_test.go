package packet_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/vectors"
	"github.com/nicless/nicless/packet"
)

// A number is written as "0x…".
type number uint64

func (h *number) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 0, 64)
	*h = number(n)
	return err
}

// fields has the fields of a vector of roce.json.
type fields struct {
	Opcode     number `json:"opcode"`
	Name       string `json:"opname"`
	SE         bool   `json:"se"`
	M          bool   `json:"m"`
	Pad        uint8  `json:"pad"`
	Version    uint8  `json:"tver"`
	PKey       number `json:"pkey"`
	FECN       bool   `json:"fecn"`
	BECN       bool   `json:"becn"`
	DestQP     number `json:"destqp"`
	AckReq     bool   `json:"ackreq"`
	PSN        uint32 `json:"psn"`
	PayloadLen int    `json:"payload_len"`
	ICRC       number `json:"icrc"`

	RETH *struct {
		VA     number `json:"va"`
		RKey   number `json:"rkey"`
		DMALen uint32 `json:"dmalen"`
	} `json:"reth"`
	AtomicETH *struct {
		VA        number `json:"va"`
		RKey      number `json:"rkey"`
		SwapOrAdd number `json:"swap_or_add"`
		Compare   number `json:"compare"`
	} `json:"atomiceth"`
	AETH *struct {
		Syndrome number `json:"syndrome"`
		MSN      uint32 `json:"msn"`
		Kind     string `json:"kind"`
	} `json:"aeth"`
	AtomicAckETH *number `json:"atomicacketh"`
	DETH         *struct {
		QKey  number `json:"qkey"`
		SrcQP number `json:"srcqp"`
	} `json:"deth"`
	ImmDt *number `json:"immdt"`
	IETH  *number `json:"ieth"`

	GRH string `json:"grh"` // what the receiver of a datagram finds before the message
	MAD *struct {
		Attr   number `json:"attr"`
		Class  uint8  `json:"class"`
		Method uint8  `json:"method"`
		CM     string `json:"cm"`
	} `json:"mad"`
}

// headersOf returns the headers that the fields stand for.
func (f *fields) headersOf() headerSet {
	h := headerSet{BTH: packet.BTH{
		Opcode: packet.Opcode(f.Opcode), Solicited: f.SE, Migrated: f.M, Pad: f.Pad, Version: f.Version,
		PKey: uint16(f.PKey), FECN: f.FECN, BECN: f.BECN, DestQP: uint32(f.DestQP), AckReq: f.AckReq, PSN: f.PSN,
	}}
	if r := f.RETH; r != nil {
		h.RETH = &packet.RETH{Addr: uint64(r.VA), RKey: uint32(r.RKey), Length: r.DMALen}
	}
	if a := f.AtomicETH; a != nil {
		h.AtomicETH = &packet.AtomicETH{Addr: uint64(a.VA), RKey: uint32(a.RKey), SwapAdd: uint64(a.SwapOrAdd), Compare: uint64(a.Compare)}
	}
	if a := f.AETH; a != nil {
		h.AETH = &packet.AETH{Syndrome: uint8(a.Syndrome), MSN: a.MSN}
	}
	if a := f.AtomicAckETH; a != nil {
		h.AtomicAck = &packet.AtomicAckETH{Original: uint64(*a)}
	}
	if d := f.DETH; d != nil {
		h.DETH = &packet.DETH{QKey: uint32(d.QKey), SrcQP: uint32(d.SrcQP)}
	}
	if i := f.ImmDt; i != nil {
		imm := packet.ImmDt(*i)
		h.Imm = &imm
	}
	if i := f.IETH; i != nil {
		h.IETH = &packet.IETH{RKey: uint32(*i)}
	}
	return h
}

// Each recorded packet decodes to its fields, and the fields encode to its bytes.
func TestGoldenPackets(t *testing.T) {
	vectors.Packets(t, "roce", func(t *testing.T, v vectors.Packet) {
		var f fields
		vectors.Decode(t, v.Fields, &f)
		want := f.headersOf()

		info := want.BTH.Opcode.Info()
		require.True(t, info.Known)
		assert.Equal(t, f.Name, info.Name)
		assert.Equal(t, f.Name, want.BTH.Opcode.String())
		assert.Equal(t, f.PayloadLen, len(v.Bytes)-info.HeaderSize-int(f.Pad)-packet.ICRCSize, "length of the payload")
		assert.True(t, info.Payload || f.PayloadLen == 0)
		assert.Equal(t, want, parseHeaders(v.Bytes), "decoded")
		assert.Equal(t, []byte(v.Bytes[:info.HeaderSize]), want.put(), "encoded")
		if f.AETH != nil {
			checkKind(t, *want.AETH, f.AETH.Kind)
		}
	})
}

// checkKind compares the kind of an answer with the words of the recording, such as
// "RNR_NAK timer 14".
func checkKind(t *testing.T, h packet.AETH, kind string) {
	t.Helper()
	known := map[string]struct {
		ack, rnr, nak bool
		code          uint8
		text          string
	}{
		"ACK credits 31":       {ack: true, code: 31, text: "ACK"},
		"RNR_NAK timer 14":     {rnr: true, code: 14, text: "RNR NAK, timer 14 (1.28ms)"},
		"NAK PSN_SEQUENCE":     {nak: true, code: 0, text: "NAK: PSN sequence error"},
		"NAK INVALID_REQUEST":  {nak: true, code: 1, text: "NAK: invalid request"},
		"NAK REMOTE_ACCESS":    {nak: true, code: 2, text: "NAK: remote access error"},
		"NAK REMOTE_OPERATION": {nak: true, code: 3, text: "NAK: remote operation error"},
	}
	want, ok := known[kind]
	require.True(t, ok, "kind %q", kind)
	assert.Equal(t, want.ack, h.ACK())
	assert.Equal(t, want.rnr, h.RNR())
	assert.Equal(t, want.nak, h.NAK())
	assert.Equal(t, want.code, h.Code())
	assert.Equal(t, want.text, h.String())
}
