package costs

import "github.com/nicless/nicless/model"

// The floors are the exchanges of lines between two cores that no device made of software can beat.
// Each is a trace of round trips; programs measure the same exchanges.

// A Floor is such an exchange.
type Floor struct {
	Name  string // the name of the measurement
	About string
	trip  func(b *tripBuilder)
}

// Floors lists the floors.
var Floors = []Floor{
	{"pp_line_each_way_rtt", "one line per direction", func(b *tripBuilder) {
		b.send("req")
		b.see("req")
		b.reply("rsp")
		b.back("rsp")
	}},
	{"pp_same_line_rtt", "one line, both write it", func(b *tripBuilder) {
		b.send("req")
		b.see("req")
		b.reply("req")
		b.back("req")
	}},
	{"pp_poll_wqe_cqe_rtt", "WQE polled, CQE back", func(b *tripBuilder) {
		b.send("sq")
		b.see("sq")
		b.reply("cq")
		b.back("cq")
	}},
	{"pp_wqe_doorbell_cqe_rtt", "WQE and doorbell line, CQE back", func(b *tripBuilder) {
		b.add(model.Host, model.Store, model.WQE, model.Once, "sq")
		b.send("req")
		b.see("req")
		b.add(model.Dev, model.Load, model.WQE, model.Once, "sq")
		b.reply("cq")
		b.back("cq")
	}},
	{"pp_wqe_doorbell_memcpy_cqe_rtt/8", "the same, and 8 bytes that the poster has written are copied", copying},
	{"pp_wqe_doorbell_memcpy_cqe_rtt/64", "the same with 64 bytes", copying},
	{"pp_two_lines_each_way_rtt", "two lines per direction", twoLines},
}

// twoLines is the trip of a floor with a polled line and another one in each direction.
func twoLines(b *tripBuilder) {
	b.add(model.Host, model.Store, model.WQE, model.Once, "sq")
	b.send("req")
	b.see("req")
	b.add(model.Dev, model.Load, model.WQE, model.Once, "sq")
	b.add(model.Dev, model.Store, model.CQE, model.Once, "cq")
	b.reply("rsp")
	b.back("rsp")
	b.add(model.Host, model.Load, model.CQE, model.Once, "cq")
}

// copying is the trip of a floor whose device copies a line. It knows where the line is.
func copying(b *tripBuilder) {
	b.add(model.Host, model.Store, model.Payload, model.Once, "tx")
	b.add(model.Host, model.Store, model.WQE, model.Once, "sq")
	b.send("req")
	b.see("req")
	b.add(model.Dev, model.Load, model.WQE, model.Once, "sq")
	b.add(model.Dev, model.Load, model.Payload, model.Once, "tx")
	b.add(model.Dev, model.Store, model.Payload, model.Once, "rx")
	b.reply("cq")
	b.back("cq")
}

// Trace returns the trace of some round trips of a floor.
func (f Floor) Trace(trips int) model.Trace {
	b := tripBuilder{Trace: model.Trace{Regions: map[string]model.Structure{"req": model.Records,
		"rsp": model.Records, "sq": model.SQ, "cq": model.CQ, "tx": model.TxPayload, "rx": model.RxPayload}}}
	for range trips {
		b.req++
		f.trip(&b)
	}
	return b.Trace
}

// A tripBuilder builds the trace of a floor. The load that sees the news is also the poll that the next store
// to the line has to disturb, so there are no empty polls.
type tripBuilder struct {
	model.Trace
	seq, req int
	sent     int // the store that the other side waits for
}

// add adds an access and returns its Seq.
func (b *tripBuilder) add(who model.Agent, op model.Op, k model.Kind, w model.Why, region string,
	after ...int) int {
	b.seq++
	b.Accesses = append(b.Accesses, model.Access{Seq: b.seq, Who: who, Op: op, Kind: k, Why: w,
		Line: model.Line{Region: region, Index: 0}, N: 1, Req: b.req, After: after})
	return b.seq
}

func (b *tripBuilder) send(region string) {
	b.sent = b.add(model.Host, model.Store, kindOf[region], model.Signal, region)
}
func (b *tripBuilder) see(region string) {
	b.add(model.Dev, model.Load, kindOf[region], model.Poll, region, b.sent)
}
func (b *tripBuilder) reply(region string) {
	b.sent = b.add(model.Dev, model.Store, kindOf[region], model.Complete, region)
}
func (b *tripBuilder) back(region string) {
	b.add(model.Host, model.Load, kindOf[region], model.Poll, region, b.sent)
}

// kindOf says what the lines of a floor's regions stand for.
var kindOf = map[string]model.Kind{"req": model.Record, "rsp": model.Record, "sq": model.WQE, "cq": model.CQE}

// Predict returns the round trip of a floor on a preset, in nanoseconds. The price of a line that both sides
// write (handover) follows from no other price on all processors, so it is a price of its own where
// it has been measured.
func (f Floor) Predict(p *Preset) (Figure, error) {
	fig, _, err := f.predict(p)
	return fig, err
}

// predict is Predict, with the weakest trust of the prices.
func (f Floor) predict(p *Preset) (fig Figure, trust string, err error) {
	if q, ok := p.Price["handover"]; ok && f.Name == "pp_same_line_rtt" {
		return Figure{2 * q.Value, 2 * q.Low, 2 * q.High}, q.Trust.String(), nil
	}
	r, err := Run(p, f.Trace(6), Options{Warm: 4, Until: model.Host})
	if err != nil {
		return Figure{}, "", err
	}
	return r.Latency, r.Trust, nil
}
