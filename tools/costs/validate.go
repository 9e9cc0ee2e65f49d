package costs

import (
	"fmt"
	"math"
	"slices"

	"github.com/nicless/nicless/model"
)

// A Row compares a prediction of the model with a value that was measured.
type Row struct {
	ID        string  `json:"id"`
	What      string  `json:"what"`
	Unit      string  `json:"unit"`      // "ns" or "%"
	Measured  float64 `json:"measured"`  // by the paper, or by the floors' program; 0 without a value
	Predicted float64 `json:"predicted"` // at nominal prices
	Low       float64 `json:"low"`       // the smallest and
	High      float64 `json:"high"`      // largest prediction with one price at an end of its range
	Tolerance float64 `json:"tolerance"` // percent of Measured for ns, points for %
	Role      string  `json:"role"`      // calibration, held out, or arithmetic
	Status    string  `json:"status"`
	Trust     string  `json:"trust"` // the weakest of what the prediction rests on, in words
	Note      string  `json:"note,omitempty"`
}

// The statuses of a row. A row has the direction only if its sign is right and its size is not. Arithmetic
// rows have no direction of their own: the sign is already in the figures that they are made of.
const (
	Reproduced    = "reproduced"
	DirectionOnly = "direction only"
	NotReproduced = "not reproduced"
	NoValue       = "no value to compare"
)

// The roles of a row. The measured value of a calibration row is what a price was computed from. A row that
// is held out had no part in any price. An arithmetic row follows from other figures of the same source,
// without the rules.
const (
	Calibration = "calibration"
	HeldOut     = "held out"
	Arithmetic  = "arithmetic"
)

// SetStatus sets the status from the figures, the tolerance and the role.
func (r *Row) SetStatus() {
	off := math.Abs(r.Predicted - r.Measured)
	if r.Unit == "ns" {
		off = off / r.Measured * 100
	}
	switch {
	case r.Measured == 0:
		r.Status = NoValue
	case off <= r.Tolerance:
		r.Status = Reproduced
	case r.Unit == "%" && r.Role == HeldOut && r.Predicted*r.Measured > 0:
		r.Status = DirectionOnly
	default:
		r.Status = NotReproduced
	}
}

// Validate returns the rows whose values were recorded: floors of two cores, and what the notes of MICRO'25
// CXL-NIC report.
func Validate() ([]Row, error) {
	var all []Row
	for _, part := range []func() ([]Row, error){recordedFloors, paperRows, bf3Rows} {
		rows, err := part()
		if err != nil {
			return nil, err
		}
		all = append(all, rows...)
	}
	for i := range all {
		all[i].SetStatus()
	}
	return all, nil
}

// recorded are medians of the floors on the machine of preset local-xeon, in ns.
var recorded = map[string]float64{
	"pp_line_each_way_rtt":      228,
	"pp_same_line_rtt":          222,
	"pp_poll_wqe_cqe_rtt":       233,
	"pp_wqe_doorbell_cqe_rtt":   279,
	"pp_two_lines_each_way_rtt": 345,

	"pp_wqe_doorbell_memcpy_cqe_rtt/8":  300,
	"pp_wqe_doorbell_memcpy_cqe_rtt/64": 303,
}

func recordedFloors() ([]Row, error) {
	p, err := Builtin("local-xeon")
	if err != nil {
		return nil, err
	}
	rows, err := FloorRows(p, recorded, 5)
	if err != nil {
		return nil, err
	}
	// The same in Go, whose own one-line row (216 ns) gives 54 ns for a miss.
	if p, err = p.With(nil, nil, map[string]string{"miss": "54"}); err != nil {
		return nil, err
	}
	inGo, err := FloorRows(p, map[string]float64{"pp_wqe_doorbell_cqe_rtt": 284}, 5)
	for i := range inGo {
		inGo[i].ID, inGo[i].What = "local-xeon Go", "the same in Go, from Go's own price of a miss"
	}
	return slices.Insert(rows, 4, inGo...), err
}

// FloorRows compares measured floors, in ns, with what a preset predicts. The tolerance is in percent.
func FloorRows(p *Preset, measured map[string]float64, tolerance float64) ([]Row, error) {
	var rows []Row
	for _, f := range Floors {
		ns, ok := measured[f.Name]
		if !ok {
			continue
		}
		fig, trust, err := f.predict(p)
		if err != nil {
			return nil, err
		}
		r := Row{ID: p.Name + " " + f.Name, What: f.About + ", round trip", Unit: "ns", Measured: ns,
			Predicted: fig.NS, Low: fig.Low, High: fig.High, Tolerance: tolerance, Role: HeldOut,
			Trust: trust}
		if f.Name == "pp_line_each_way_rtt" || f.Name == "pp_same_line_rtt" && p.has("handover") {
			r.Role = Calibration
		}
		r.SetStatus()
		rows = append(rows, r)
	}
	return rows, nil
}

// A comparison is a row of the paper: a design against the one with all structures in host memory
// and all requests non-cacheable.
type comparison struct {
	id, what       string
	preset         string
	place, request map[string]string
	paper          [2]float64 // percent, for 64 B and the second figure
	note           string
}

var (
	rxInNIC = map[string]string{"payload.rx": "dev", "rq": "dev", "cq": "dev"}
	txInNIC = map[string]string{"payload.tx": "dev", "sq": "dev"}
	inNIC   = map[string]string{"payload.rx": "dev", "rq": "dev", "cq": "dev", "payload.tx": "dev",
		"sq": "dev"}
	push   = map[string]string{"payload.store": "NC-P", "cqe.store": "NC-P"}
	cached = map[string]string{"payload.load": "CS-read", "payload.store": "CO-write", "wqe.poll": "CO-read"}
)

var comparisons = []comparison{
	{"tx payload CS", "Tx payload by CS-read instead of NC-read", "cxl1-fpga", nil, map[string]string{"payload.load": "CS-read"}, [2]float64{17, 13}, ""},
	{"rx payload CO", "Rx payload by CO-write instead of NC-write", "cxl1-fpga", nil, map[string]string{"payload.store": "CO-write"}, [2]float64{15, 19}, ""},
	{"poll CO", "descriptor polled by CO-read instead of NC-read", "cxl1-fpga", nil, map[string]string{"wqe.poll": "CO-read"}, [2]float64{19, 13}, ""},
	{"L2", "Rx structures in NIC memory", "cxl2-fpga", rxInNIC, nil, [2]float64{23, 38}, ""},
	{"L3", "Tx structures in NIC memory", "cxl2-fpga", txInNIC, nil, [2]float64{54, 35}, "no price in host bias explains L2 and L3 together"},
	{"L4", "Rx and Tx structures in NIC memory", "cxl2-fpga", inNIC, nil, [2]float64{71, 74}, "as L3"},
	{"NC-P", "payload and completion pushed by NC-P", "cxl1-fpga", nil, push, [2]float64{}, "the notes give no value"},
}

// sizes are the bytes of the packets of a comparison. Whether the paper's second figures are for 1500 B or
// are 99th percentiles is not clear from the notes.
var sizes = [2]int{64, 1500}

func paperRows() ([]Row, error) {
	var rows []Row
	for _, c := range comparisons {
		for i, bytes := range sizes {
			r := Row{ID: fmt.Sprintf("%s %d B", c.id, bytes), What: c.what, Unit: "%", Measured: c.paper[i],
				Tolerance: 7.5, Role: HeldOut, Note: c.note}
			err := r.compare(design{c.preset, c.place, c.request}, design{preset: "cxl1-fpga"}, bytes)
			if err != nil {
				return nil, err
			}
			rows = append(rows, r)
		}
	}
	for i, bytes := range sizes {
		r := Row{ID: fmt.Sprintf("cc %d B", bytes), What: "type 2, Rx structures in NIC memory, NC-P, against all requests cacheable (CC-NIC)", Unit: "%",
			Measured: -37, Tolerance: 7.5, Role: HeldOut, Note: "what CC-NIC ran on is inferred; the paper gives one figure"}
		if err := r.compare(design{"cxl2-fpga", rxInNIC, push}, design{"cxl1-fpga", nil, cached},
			bytes); err != nil {
			return nil, err
		}
		rows = append(rows, r)
		// The paper's own penalties for cacheable requests, and the model's gain by NC-P.
		gain := Row{}
		if err := gain.compare(design{"cxl1-fpga", nil, push}, design{preset: "cxl1-fpga"},
			bytes); err != nil {
			return nil, err
		}
		sum := 0.0
		for _, c := range comparisons[:3] {
			sum += c.paper[i]
		}
		p := ((1+gain.Predicted/100)/(1+sum/100) - 1) * 100
		rows = append(rows, Row{ID: fmt.Sprintf("cc sum %d B", bytes), What: "the same, from the paper's three penalties and the model's gain by NC-P", Unit: "%",
			Measured: -37, Predicted: p, Low: p, High: p, Tolerance: 7.5, Role: Arithmetic,
			Trust: weaker(gain.Trust, Secondary.String())})
	}
	return rows, nil
}

// A design is a preset with placements and requests.
type design struct {
	preset         string
	place, request map[string]string
}

// loop prices a loopback of packets of some bytes. The named price is at an end of its range; if it is "",
// all prices are nominal.
func (d design) loop(bytes int, price string, end level) (*Report, error) {
	p, err := Builtin(d.preset)
	if err != nil {
		return nil, err
	}
	if price != "" {
		if from, ok := p.recipes[price]; ok && len(from.Range) == 2 {
			if p, err = p.atEnd(price, end); err != nil {
				return nil, err
			}
		}
	}
	if p, err = p.With(d.place, d.request, nil); err != nil {
		return nil, err
	}
	t, err := Loopback(bytes, 6)
	if err != nil {
		return nil, err
	}
	return Run(p, t, Options{Warm: 4, Until: model.Dev})
}

// weaker returns the weaker of two marks in words.
func weaker(a, b string) string {
	if slices.Index(trustNames, a) > slices.Index(trustNames, b) {
		return a
	}
	return b
}

// compare predicts how much longer packets take with design d than with base, in percent, and how far that
// moves if one price after the other goes to an end of its range, in both designs.
func (r *Row) compare(d, base design, bytes int) error {
	percent := func(price string, end level) (float64, error) {
		a, err := d.loop(bytes, price, end)
		if err != nil {
			return 0, err
		}
		b, err := base.loop(bytes, price, end)
		if err != nil {
			return 0, err
		}
		r.Trust = weaker(a.Trust, b.Trust)
		return (a.Latency.NS/b.Latency.NS - 1) * 100, nil
	}
	var err error
	r.Predicted, err = percent("", nominal)
	if err != nil {
		return err
	}
	r.Low, r.High = r.Predicted, r.Predicted
	p, err := Builtin(d.preset)
	if err != nil {
		return err
	}
	for price := range sorted(p.recipes) {
		for _, end := range []level{low, high} {
			v, err := percent(price, end)
			if err != nil {
				return err
			}
			r.Low, r.High = min(r.Low, v), max(r.High, v)
		}
	}
	return nil
}
