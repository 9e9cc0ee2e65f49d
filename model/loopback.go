package model

import "fmt"

// Loopback returns the trace of CXL-NIC's experiment (MICRO'25): packets of some bytes arrive at the device,
// which writes each and its completion to memory; the host's software answers it with a packet of
// the same length, which the device reads. Buffers and descriptors are used again. A receive descriptor
// has been prefetched before its packet arrives. The signal of a packet to send is in its
// descriptor. The trace has count requests.
func Loopback(bytes, count int) (Trace, error) {
	if bytes < 1 || bytes > 1<<20 {
		return Trace{}, fmt.Errorf("packets of %d bytes are not 1..%d", bytes, 1<<20)
	}
	return loopback(bytes, count, false), nil
}

// loopback is Loopback. The argument tail says that a record of its own, which the device polls, announces
// a descriptor.
func loopback(bytes, count int, tail bool) Trace {
	n := (bytes + LineSize - 1) / LineSize
	t := Trace{Regions: map[string]Structure{"rq": RQ, "rx": RxPayload, "cq": CQ, "tx": TxPayload, "sq": SQ, "tail": Records}}
	signal, region := WQE, "sq"
	if tail {
		signal, region = Record, "tail"
	}
	at := func(region string) Line { return Line{region, 0} }
	seq, end := 0, 0
	for req := range count {
		add := func(a Access, after ...int) int {
			seq++
			a.Seq, a.Req, a.After = seq, req, after
			if a.N == 0 {
				a.N = 1
			}
			t.Accesses = append(t.Accesses, a)
			return seq
		}
		add(Access{Who: Dev, Op: Load, Kind: RxWQE, Why: Prefetch, Line: at("rq")})
		add(Access{Who: Host, Op: Load, Kind: CQE, Why: Poll, Line: at("cq")})
		add(Access{Who: Dev, Op: Load, Kind: signal, Why: Poll, Line: at(region)})

		var after []int
		if end != 0 {
			after = []int{end} // the next packet arrives when this one has been read
		}
		add(Access{Who: Dev, Op: Work, N: 1}, after...)
		add(Access{Who: Dev, Op: Load, Kind: RxWQE, Why: Once, Line: at("rq")})
		add(Access{Who: Dev, Op: Store, Kind: Payload, Why: Stream, Line: at("rx"), N: n, Bytes: bytes})
		done := add(Access{Who: Dev, Op: Store, Kind: CQE, Why: Complete, Line: at("cq")})

		add(Access{Who: Host, Op: Load, Kind: CQE, Why: Poll, Line: at("cq")}, done)
		add(Access{Who: Host, Op: Load, Kind: Payload, Why: Stream, Line: at("rx"), N: n, Bytes: bytes})
		add(Access{Who: Host, Op: Work, N: 1})
		add(Access{Who: Host, Op: Store, Kind: Payload, Why: Stream, Line: at("tx"), N: n, Bytes: bytes})
		if tail {
			add(Access{Who: Host, Op: Store, Kind: WQE, Why: Once, Line: at("sq")})
		}
		sent := add(Access{Who: Host, Op: Store, Kind: signal, Why: Signal, Line: at(region)})

		add(Access{Who: Dev, Op: Load, Kind: signal, Why: Poll, Line: at(region)}, sent)
		if tail {
			add(Access{Who: Dev, Op: Load, Kind: WQE, Why: Once, Line: at("sq")})
		}
		add(Access{Who: Dev, Op: Load, Kind: Payload, Why: Stream, Line: at("tx"), N: n, Bytes: bytes})
		end = add(Access{Who: Dev, Op: Work, N: 1})

		// Off the path: the host puts the buffer back.
		add(Access{Who: Host, Op: Store, Kind: RxWQE, Why: Once, Line: at("rq")})
	}
	return t
}
