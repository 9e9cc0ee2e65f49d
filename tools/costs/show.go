package costs

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/nicless/nicless/model"
)

// A Listing is a preset with all its numbers, for reports.
type Listing struct {
	Preset   string            `json:"preset"`
	About    string            `json:"about"`
	Fabric   string            `json:"fabric"`
	Bias     string            `json:"bias"`     // of device memory
	Place    map[string]string `json:"place"`    // where each structure is
	Requests map[string]string `json:"requests"` // of the device; "load" and "store" are those for all else
	Prices   []Listed          `json:"prices"`   // sorted by name
	Trust    string            `json:"trust"`    // the weakest
}

// A Listed is a number of a preset.
type Listed struct {
	Price  string  `json:"price"`
	Unit   string  `json:"unit"` // ns or lines
	Value  float64 `json:"value"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Recipe string  `json:"recipe,omitempty"` // what the number is computed from
	Trust  string  `json:"trust"`            // the letter
	Source string  `json:"source"`
}

// Weakest returns the weakest trust of the prices of p.
func (p *Preset) Weakest() Trust {
	weakest := Measured
	for _, q := range p.Price {
		weakest = max(weakest, q.Trust)
	}
	return weakest
}

// Text returns the file of a preset that the package has: something to begin a preset of one's own with.
func Text(name string) ([]byte, error) {
	if _, err := Builtin(name); err != nil {
		return nil, err
	}
	return presetFiles.ReadFile("presets/" + name + ".toml")
}

// List returns all numbers of p.
func (p *Preset) List() *Listing {
	l := &Listing{Preset: p.Name, About: p.About, Fabric: p.Fabric.Name, Bias: p.Bias.String(),
		Place: map[string]string{}, Requests: map[string]string{}, Trust: p.Weakest().String()}
	for s := range model.Structures {
		l.Place[s.String()] = p.home(s).String()
	}
	l.Place[model.Keys.String()] = DeviceMemory.String()
	if f := p.Fabric; len(f.Reads) > 0 {
		l.Requests["load"], l.Requests["store"] = f.Reads[0].String(), f.Writes[0].String()
	}
	for key, r := range p.Request {
		l.Requests[key] = r.String()
	}
	for name, q := range sorted(p.Price) {
		unit, n := "ns", precisionOf(q.Trust.Letter())
		if strings.HasSuffix(name, "_in_flight") {
			unit = "lines"
		}
		l.Prices = append(l.Prices, Listed{name, unit, round(q.Value, n), round(q.Low, n), round(q.High, n),
			p.recipes[name].String(), q.Trust.Letter(), q.Source})
	}
	return l
}

// String returns what a price is computed from, such as "0.3 x d2h_read_dram", or "".
func (r recipe) String() string {
	if r.Of == "" {
		return ""
	}
	s := r.Of
	if r.Ratio != nil && *r.Ratio != 1 {
		s = fmt.Sprintf("%.4g x %s", *r.Ratio, r.Of)
	}
	for _, part := range r.Plus {
		s += " + " + part
	}
	for _, part := range r.Minus {
		s += " - " + part
	}
	return s
}

// JSON writes the listing as one object of JSON.
func (l *Listing) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(l)
}

// Table writes the listing as text.
func (l *Listing) Table(w io.Writer) error {
	text := fold(l.Preset+": "+l.About, "") + "\n\n"
	device := "; the device is a core"
	if len(l.Requests) > 0 {
		device = ""
	}
	text += "fabric " + l.Fabric + device + "\n"
	text += fold("places: "+pairs(l.Place), "  ") + "\n"
	if strings.Contains(pairs(l.Place), "=dev") && l.Bias == DeviceBias.String() {
		text += "device memory is in " + l.Bias + "\n"
	}
	if len(l.Requests) > 0 {
		text += fold("requests of the device: "+pairs(l.Requests), "  ") + "\n"
	}
	weakest := map[string][]string{}
	for _, q := range l.Prices {
		n := precisionOf(q.Trust)
		number := digits(q.Value, n) + " " + q.Unit
		if q.Low != q.High {
			number += ", " + digits(q.Low, n) + ".." + digits(q.High, n)
		}
		if q.Recipe != "" {
			number += ", = " + q.Recipe
		}
		trust := trustNames[strings.Index(trustLetters, q.Trust)]
		weakest[trust] = append(weakest[trust], q.Price)
		text += fmt.Sprintf("\nprice.%s  %s, %s\n", q.Price, number, trust)
		text += fold("    "+q.Source, "    ") + "\n"
	}
	text += "\n" + fold(fmt.Sprintf("%s: weakest: %s (%s); each number has its range", l.Preset, l.Trust, strings.Join(weakest[l.Trust], ", ")), "  ") + "\n"
	_, err := io.WriteString(w, text)
	return err
}

// pairs returns a map as "a=b, c=d".
func pairs(m map[string]string) string {
	var list []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		list = append(list, k+"="+m[k])
	}
	return strings.Join(list, ", ")
}

// ParseStructure is the reverse of Structure.String.
func ParseStructure(name string) (model.Structure, bool) {
	s := slices.Index(model.StructureNames(), name)
	return model.Structure(max(s, 0)), s >= 0
}

// Has reports whether a device on the fabric has the request of that name.
func (f *Fabric) Has(request string) bool {
	return slices.ContainsFunc(slices.Concat(f.Reads, f.Writes),
		func(r Request) bool { return r.String() == request })
}
