//go:build linux && (amd64 || arm64)

package request

import (
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/report"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/trace"
)

// recordClient records that a client exists.
func (e Device) recordClient(c *object.Client, mask uint32) {
	c.Shard.Taps.Record(mask, &trace.Event{Kind: trace.KindClient, Time: clock.Now(), Queue: c.Number,
		Value: uint64(max(c.Hosted.PID, 0)), Data: []byte(c.Name)})
}

// recordQueue records what a queue pair is.
func (e Device) recordQueue(q *object.QP, mask uint32) {
	if mask == 0 {
		return
	}
	a := &q.Attr
	info := trace.QueueInfo{Peer: a.DestQPN, SendPSN: a.SQPSN, RecvPSN: a.RQPSN,
		SendBlocks: uint32(q.SQ.Mask + 1), RecvEntries: uint32(q.RQ.Mask + 1), GID: q.Client.Hosted.GID}
	if p := e.QPs[a.DestQPN]; p != nil && q.Wire == nil && a.DestQPN != 0 {
		info.PeerGID = p.Client.Hosted.GID
	}
	if a.PathMTU != 0 {
		info.MTU = 128 << min(a.PathMTU, 5)
	}
	if q.SQ.CQ != nil {
		info.SendCQ = q.SQ.CQ.Num
	}
	if q.RQ.CQ != nil {
		info.RecvCQ = q.RQ.CQ.Num
	}
	if q.RQ.SRQ != nil {
		info.SRQ = q.RQ.SRQ.Num
	}
	if w := q.Wire; w != nil {
		info.Port, info.MTU = w.Port.Number, w.MTU
	}
	event := trace.Event{Kind: trace.KindQueue, Time: clock.Now(), Queue: q.Num,
		Index: uint16(report.TraceState(a.State)), Count: uint16(transports[q.Transport]),
		Value: uint64(q.Client.Number), Data: info.Append(nil)}
	if q.Target() != nil {
		event.Count = uint16(trace.XRCTgt)
	}
	recordSetup(e, &event, q.Client, mask, func(b []byte) []byte { return setupOf(q).Append(b) })
}

// transports has the number of each transport in events.
var transports = map[uint8]trace.Transport{
	control.QPTypeRC: trace.RC, control.QPTypeUC: trace.UC, control.QPTypeUD: trace.UD,
	control.QPTypeXRC: trace.XRCIni, control.QPTypeDCI: trace.DCI, control.QPTypeDCT: trace.DCT,
}

// recordKey records that a key was made, has changed or is gone.
func (e Device) recordKey(k *object.Mkey, mask uint32, how uint16) {
	if mask == 0 {
		return
	}
	event := trace.Event{Kind: trace.KindKey, Time: clock.Now(), Queue: k.Key, Index: how,
		Count: uint16(k.Access), Data: trace.KeyInfo{Addr: k.Base, Length: k.Size,
			Client: k.Client.Number}.Append(nil)}
	recordSetup(e, &event, k.Client, mask, func(b []byte) []byte {
		s := trace.KeySetup{From: k.From, PD: k.Domain().ID, Entries: uint32(k.Room)}
		if k.Window != nil {
			s.Window = uint32(k.Window.Kind)
		}
		b = s.Append(b)
		if k.Room > 0 {
			b = listOf(k).Append(b)
		}
		return b
	})
}

// recordGone records that a client or a queue is gone.
func recordGone(sh *object.Shard, mask uint32, kind trace.Kind, number uint32, value uint64) {
	if mask != 0 {
		sh.Taps.Record(mask, &trace.Event{Kind: kind, Time: clock.Now(), Queue: number, Value: value})
	}
}
