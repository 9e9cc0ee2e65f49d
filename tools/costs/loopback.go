package costs

import (
	"fmt"

	"github.com/nicless/nicless/model"
)

// Loopback returns the trace of CXL-NIC's experiment (MICRO'25): packets of some bytes arrive at the device,
// which writes each and its completion to memory; the host's software answers it with a packet of
// the same length, which the device reads. Buffers and descriptors are used again. A receive descriptor
// has been prefetched before its packet arrives. The signal of a packet to send is in its
// descriptor. The trace has count requests.
func Loopback(bytes, count int) (model.Trace, error) {
	if bytes < 1 || bytes > 1<<20 {
		return model.Trace{}, fmt.Errorf("packets of %d bytes are not 1..%d", bytes, 1<<20)
	}
	return loopback(bytes, count, false), nil
}

// loopback is Loopback. The argument tail says that a record of its own, which the device polls, announces
// a descriptor.
func loopback(bytes, count int, tail bool) model.Trace {
	n := (bytes + model.LineSize - 1) / model.LineSize
	t := model.Trace{Regions: map[string]model.Structure{"rq": model.RQ, "rx": model.RxPayload,
		"cq": model.CQ, "tx": model.TxPayload, "sq": model.SQ, "tail": model.Records}}
	signal, region := model.WQE, "sq"
	if tail {
		signal, region = model.Record, "tail"
	}
	at := func(region string) model.Line { return model.Line{Region: region, Index: 0} }
	seq, end := 0, 0
	for req := range count {
		add := func(a model.Access, after ...int) int {
			seq++
			a.Seq, a.Req, a.After = seq, req, after
			if a.N == 0 {
				a.N = 1
			}
			t.Accesses = append(t.Accesses, a)
			return seq
		}
		add(model.Access{Who: model.Dev, Op: model.Load, Kind: model.RxWQE, Why: model.Prefetch,
			Line: at("rq")})
		add(model.Access{Who: model.Host, Op: model.Load, Kind: model.CQE, Why: model.Poll, Line: at("cq")})
		add(model.Access{Who: model.Dev, Op: model.Load, Kind: signal, Why: model.Poll, Line: at(region)})

		var after []int
		if end != 0 {
			after = []int{end} // the next packet arrives when this one has been read
		}
		add(model.Access{Who: model.Dev, Op: model.Work, N: 1}, after...)
		add(model.Access{Who: model.Dev, Op: model.Load, Kind: model.RxWQE, Why: model.Once, Line: at("rq")})
		add(model.Access{Who: model.Dev, Op: model.Store, Kind: model.Payload, Why: model.Stream,
			Line: at("rx"), N: n, Bytes: bytes})
		done := add(model.Access{Who: model.Dev, Op: model.Store, Kind: model.CQE, Why: model.Complete,
			Line: at("cq")})

		add(model.Access{Who: model.Host, Op: model.Load, Kind: model.CQE, Why: model.Poll, Line: at("cq")},
			done)
		add(model.Access{Who: model.Host, Op: model.Load, Kind: model.Payload, Why: model.Stream,
			Line: at("rx"), N: n, Bytes: bytes})
		add(model.Access{Who: model.Host, Op: model.Work, N: 1})
		add(model.Access{Who: model.Host, Op: model.Store, Kind: model.Payload, Why: model.Stream,
			Line: at("tx"), N: n, Bytes: bytes})
		if tail {
			add(model.Access{Who: model.Host, Op: model.Store, Kind: model.WQE, Why: model.Once,
				Line: at("sq")})
		}
		sent := add(
			model.Access{Who: model.Host, Op: model.Store, Kind: signal, Why: model.Signal, Line: at(region)})

		add(model.Access{Who: model.Dev, Op: model.Load, Kind: signal, Why: model.Poll, Line: at(region)},
			sent)
		if tail {
			add(model.Access{Who: model.Dev, Op: model.Load, Kind: model.WQE, Why: model.Once,
				Line: at("sq")})
		}
		add(model.Access{Who: model.Dev, Op: model.Load, Kind: model.Payload, Why: model.Stream,
			Line: at("tx"), N: n, Bytes: bytes})
		end = add(model.Access{Who: model.Dev, Op: model.Work, N: 1})

		// Off the path: the host puts the buffer back.
		add(model.Access{Who: model.Host, Op: model.Store, Kind: model.RxWQE, Why: model.Once,
			Line: at("rq")})
	}
	return t
}
