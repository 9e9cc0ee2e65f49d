//go:build linux && (amd64 || arm64)

package cm

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/nicless/nicless/internal/vectors"
	"github.com/stretchr/testify/require"
)

// Bytes of a packet before its datagram (BTH and DETH) and after it (ICRC).
const (
	beforeMAD = 12 + 8
	afterMAD  = 4
)

// recordedMAD returns the management datagram in a packet, nil if it is none.
func recordedMAD(p vectors.Packet) *MAD {
	if !strings.HasPrefix(p.Name, "cm_") || len(p.Bytes) != beforeMAD+MADSize+afterMAD {
		return nil
	}
	return (*MAD)(p.Bytes[beforeMAD:])
}

// Messages between two Soft-RoCE devices of Linux have sensible fields, and are written again as they were.
func TestRecordedMADs(t *testing.T) {
	seen := make(map[messageKind]int)
	vectors.Packets(t, "roce", func(t *testing.T, p vectors.Packet) {
		b := recordedMAD(p)
		if b == nil {
			return
		}
		tid, msg, err := parseMAD(b)
		require.NoError(t, err)
		seen[msg.kind()]++
		require.Equal(t, b, newMAD(tid, msg))
		switch m := msg.(type) {
		case *REQ:
			require.Equal(t, []GID{gidOf(p.IP.Src), gidOf(p.IP.Dst)}, []GID{m.Path.LocalGID, m.Path.RemoteGID})
			src, dst := parseIPHeader(m.Data[:], m.Service)
			require.Equal(t, []netip.Addr{p.IP.Src, p.IP.Dst}, []netip.Addr{src.addr, dst.addr})
			require.Equal(t, serviceOfTCP, m.Service&spaceMask)
			want := &REQ{
				From: m.From, Service: m.Service, GUID: 0x505400fffe990001, QPType: qptRC, QPN: m.QPN, PSN: m.PSN,
				Resources: 1, Depth: 1, Retry: m.Retry, RNR: m.RNR, MTU: 3, Timeout: 19, PKey: defaultPKey, CM: CMTimeouts{20, 20, 15},
				Path: RequestPath{LocalLID: permissiveLID, RemoteLID: permissiveLID, LocalGID: m.Path.LocalGID, RemoteGID: m.Path.RemoteGID,
					FlowLabel: m.Path.FlowLabel, HopLimit: hopLimit},
				Data: m.Data,
			}
			require.Equal(t, want, m)
			require.Equal(t, map[uint32][]uint8{0x1f: {7, 7}, 0x20: {5, 0}}[m.QPN], []uint8{m.Retry, m.RNR})
			return
		case *REP:
			require.Equal(t, &REP{From: m.From, To: m.To, GUID: 0x505400fffe990002, QPN: 0x22, PSN: 0x1500b8, Resources: 1, Depth: 1,
				AckDelay: 15, RNR: 7}, m)
		case *REJ:
			require.Equal(t, &REJ{To: m.To, Reason: rejService}, m)
		case *DREQ:
			require.Equal(t, uint32(0x22), m.QPN)
		}
		require.NotZero(t, msg.to())
	})
	for _, k := range []messageKind{kindREQ, kindREP, kindRTU, kindREJ, kindDREQ, kindDREP} {
		require.NotZero(t, seen[k], "kind %d", k)
	}
}

// full returns one message of each kind, and of each transport, with every bit of every field set.
func full() []Message {
	ones := func(m Message) Message {
		fillOnes(reflect.ValueOf(m).Elem())
		return m
	}
	req := func(qpType uint8) *REQ {
		m := ones(new(REQ)).(*REQ)
		m.QPType, m.QPN, m.PSN, m.ECE.Vendor = qpType, 0xffffff, 0xffffff, 0xffffff
		m.FlowControl, m.Retry, m.RNR, m.SRQ, m.MTU, m.Timeout = 1, 7, 7, 1, 15, 31
		m.CM = CMTimeouts{31, 31, 15}
		m.Path.FlowLabel, m.Path.Rate, m.Path.SL = 0xfffff, 0x3f, 15
		return m
	}
	rep := ones(new(REP)).(*REP)
	rep.QPN, rep.EECN, rep.PSN, rep.ECE.Vendor = 0xffffff, 0xffffff, 0xffffff, 0xffffff
	rep.AckDelay, rep.FlowControl, rep.RNR, rep.SRQ = 31, 1, 7, 1
	rej := ones(new(REJ)).(*REJ)
	rej.Refused, rej.InfoSize = 3, rejInfo
	sidr := ones(new(SIDRREP)).(*SIDRREP)
	sidr.QPN, sidr.ECE.Vendor = 0xffffff, 0xffffff
	dreq := ones(new(DREQ)).(*DREQ)
	dreq.QPN = 0xffffff
	mra := ones(new(MRA)).(*MRA)
	mra.Received, mra.Timeout = 3, 31
	return []Message{req(qptRC), req(qptUC), req(qptXRCRecv), rep, ones(new(RTU)), rej, dreq, ones(new(DREP)), ones(new(SIDRREQ)), sidr, mra}
}

// fillOnes sets every bit of a value.
func fillOnes(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fillOnes(v.Field(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			fillOnes(v.Index(i))
		}
	case reflect.Bool:
		v.SetBool(true)
	default:
		v.SetUint(^uint64(0) >> (64 - v.Type().Bits()))
	}
}

// Every field has its own place: fields that are set one by one come back, and the others stay 0.
func TestMADFields(t *testing.T) {
	kinds := make(map[messageKind]bool)
	for _, all := range full() {
		kinds[all.kind()] = true
		_, got, err := parseMAD(newMAD(7, all))
		require.NoError(t, err)
		require.Equal(t, all, got)
		of := reflect.ValueOf(all).Elem()
		for i := range of.NumField() {
			one := reflect.New(of.Type())
			one.Elem().Field(i).Set(of.Field(i))
			if q, ok := one.Interface().(*REQ); ok {
				q.QPType = all.(*REQ).QPType // there is always one
			}
			tid, got, err := parseMAD(newMAD(1<<63, one.Interface().(Message)))
			require.NoError(t, err)
			require.Equal(t, uint64(1)<<63, tid)
			require.Equal(t, one.Interface(), got, "%s of %T", of.Type().Field(i).Name, all)
		}
	}
	require.Len(t, kinds, len(attributeIDs))
}

// Bytes that Linux compares or shows, at the offsets of its header ibta_vol1_c12.h.
func TestMADOffsets(t *testing.T) {
	at := func(m Message, offset int, want ...byte) {
		t.Helper()
		b := newMAD(0, m)
		require.Equal(t, want, b.body()[offset:][:len(want)], "%T", m)
	}
	at(&REQ{ECE: ECE{Vendor: 0x15b3}}, 5, 0x00, 0x15, 0xb3)
	at(&REQ{QPType: qptUC, CM: CMTimeouts{Remote: 20}}, 43, 20<<3|1<<1)
	at(&REQ{QPType: qptXRCRecv, FlowControl: 1}, 43, 3<<1|1)
	at(&REQ{QPType: qptXRCRecv, SRQ: 1, CM: CMTimeouts{Retries: 15}}, 51, 15<<4|1<<3|1)
	at(&REQ{Path: RequestPath{FlowLabel: 0x12345, Rate: 16, TrafficClass: 0x20, HopLimit: 64, SL: 3, SubnetLocal: true}}, 88, 0x12, 0x34, 0x50, 16, 0x20, 64, 3<<4|1<<3)
	at(&REP{EECN: 0x123456, ECE: ECE{Vendor: 0xabcdef}}, 15, 0xab, 0x12, 0x34, 0x56, 0xcd, 0, 0, 0, 0xef)
	at(&MRA{From: 1, To: 2, Received: aboutREP, Timeout: 24}, 0, 0, 0, 0, 1, 0, 0, 0, 2, 1<<6, 24<<3)
	at(&REJ{Refused: aboutOther, InfoSize: 8, Reason: rejTimeout}, 8, 2<<6, 8<<1, 0, 4)
	at(&SIDRREP{QPN: 0x10203, QKey: 0x01234567, ECE: ECE{Vendor: 0x15b3}}, 4, 0, 0, 0, 0x15, 1, 2, 3, 0xb3)
	at(&SIDRREQ{From: 9, PKey: defaultPKey, Service: serviceOfUDP}, 0, 0, 0, 0, 9, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0x01, 0x11)
	b := newMAD(0x0102030405060708, &REQ{ECE: ECE{Options: 0x11223344}})
	require.Equal(t, []byte{1, 7, 2, 3, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0x10, 0, 0, 0x11, 0x22, 0x33, 0x44}, b[:madHeader])
}

// A stranger's bytes are a message or an error. A message is written again in the same bytes, apart from the
// fields that have no use here.
func FuzzMAD(f *testing.F) {
	for _, m := range full() {
		f.Add(newMAD(1, m)[:])
	}
	f.Add(make([]byte, MADSize))
	f.Fuzz(func(t *testing.T, in []byte) {
		b := new(MAD)
		copy(b[:], in)
		tid, msg, err := parseMAD(b)
		if err != nil {
			require.Nil(t, msg)
			return
		}
		if q, ok := msg.(*REQ); ok && q.QPType == 0 {
			return // a transport that is not known is not written
		}
		again := newMAD(tid, msg)
		for i := range again { // a bit that is written was there
			if _, rej := msg.(*REJ); !rej || i != madHeader+9 {
				require.Zero(t, again[i]&^b[i], "byte %d", i)
			}
		}
		_, back, err := parseMAD(again)
		require.NoError(t, err)
		require.Equal(t, msg, back)
	})
}
