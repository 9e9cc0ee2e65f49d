package report

import (
	"encoding/json"

	"github.com/nicless/nicless/field"
	"github.com/nicless/nicless/field/known"
	"github.com/nicless/nicless/field/paste"
)

// record is the JSON object of an item. Members that do not apply are left out.
type record struct {
	Line        int           `json:"line"`
	Last        int           `json:"last"`
	Kind        paste.Kind    `json:"kind"`
	Program     string        `json:"program,omitempty"`
	Notes       []string      `json:"notes,omitempty"`
	Hex         string        `json:"hex,omitempty"`
	Fields      field.Tree    `json:"fields,omitempty"`
	Error       string        `json:"error,omitempty"` // why the fields are not complete
	QPN         *uint32       `json:"qpn,omitempty"`
	CQN         *uint32       `json:"cqn,omitempty"`
	Counter     *uint16       `json:"wqe_counter,omitempty"`
	Side        string        `json:"side,omitempty"`
	Suspicions  []suspicion   `json:"suspicions,omitempty"`
	Code        string        `json:"code,omitempty"` // of docs/EXPLANATIONS.md, if the text has it
	Syndrome    *uint8        `json:"syndrome,omitempty"`
	Text        string        `json:"syndrome_text,omitempty"`
	Status      string        `json:"status,omitempty"`
	Vendor      *uint8        `json:"vendor_err_synd,omitempty"`
	VendorMeans string        `json:"vendor_means,omitempty"`
	VendorSure  string        `json:"vendor_sure,omitempty"`
	Causes      []recordCause `json:"causes,omitempty"`
	Root        int           `json:"root_line,omitempty"` // of the failure of which this flush is a consequence
}

type suspicion struct {
	Code string `json:"code"`
	Text string `json:"text"`
	Sure bool   `json:"sure"`
}

type recordCause struct {
	Text string `json:"text"`
	Code string `json:"code,omitempty"`
	Sure string `json:"sure"`
}

// json prints an item as one line.
func (p *printer) json(it *paste.Item, suspicions []paste.Suspicion) error {
	r := record{Line: it.Line, Last: it.Last, Kind: it.Kind, Program: it.Facts.Program, Notes: it.Notes,
		Hex: field.Bytes(it.Bytes).String(), QPN: it.Facts.QPN, CQN: it.Facts.CQN, Counter: it.Facts.Counter,
		Side: it.Facts.Side, Code: it.Facts.Code}
	tree, err := it.Describe(p.o.Address)
	r.Fields = tree
	if err != nil {
		r.Error = err.Error()
	}
	if w := entryOf(it); w != nil {
		r.QPN, r.Counter = &w.QPN, &w.Counter
	}
	for _, s := range suspicions {
		r.Suspicions = append(r.Suspicions, suspicion(s))
	}
	if s, vendor, ok := it.Error(); ok {
		n := uint8(s)
		r.Syndrome, r.Text, r.Status, r.Vendor = &n, s.Error(), "IBV_WC_"+s.Status().String(), vendor
		if vendor != nil {
			if v, _, ok := known.AboutVendor(s, *vendor); ok {
				r.VendorMeans, r.VendorSure = v.Means, v.Sure.String()
			}
		}
		f, _ := it.Failure()
		found, _ := p.roots.of(it)
		r.Root = found.line
		for _, c := range known.Causes(f) {
			r.Causes = append(r.Causes, recordCause{c.Text, c.Code, c.Sure.String()})
		}
	}
	return json.NewEncoder(p.w).Encode(r)
}
