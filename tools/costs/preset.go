package costs

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/nicless/nicless/model"
	"github.com/pelletier/go-toml/v2"
)

// A Preset is a fabric with prices, and with the device's habits on it: where the structures are, and
// which requests the device uses. Create presets by Builtin or Parse, and
// change copies by With.
type Preset struct {
	Name   string
	About  string // one sentence
	Fabric *Fabric
	Price  map[string]Quantity // prices by name, or by name, a dot and a kind of line
	Place  map[model.Structure]Home
	Bias   Bias // bias of device memory

	// Request maps keys such as "record.poll" or "payload.load" to requests: a kind and a reason, or
	// a kind and an operation. The first is tried first.
	Request map[string]Request

	recipes map[string]recipe // what Price is computed from
}

// A recipe is a price as a file has it, and the file.
type recipe struct {
	filePrice
	at *source
}

//go:embed presets/*.toml
var presetFiles embed.FS

// A file is a preset as its TOML file has it.
type file struct {
	About   string               `toml:"about"`
	Base    string               `toml:"base"`
	Fabric  string               `toml:"fabric"`
	Bias    string               `toml:"bias"`
	Price   map[string]filePrice `toml:"price"`
	Place   map[string]string    `toml:"place"`
	Request map[string]string    `toml:"request"`
}

// A filePrice is a price: a number, or a multiple of another price plus and minus others.
type filePrice struct {
	NS     *float64  `toml:"ns"`
	Of     string    `toml:"of"`
	Ratio  *float64  `toml:"ratio"`
	Plus   []string  `toml:"plus"`
	Minus  []string  `toml:"minus"`
	Range  []float64 `toml:"range"` // of ns, or of ratio
	Trust  string    `toml:"trust"`
	Source string    `toml:"source"`
}

// A PresetError says what is wrong with a preset.
type PresetError struct {
	Preset string
	Line   int    // line in the file, or 0
	Key    string // such as "price.link.ns", or ""
	Err    error
}

func (e *PresetError) Error() string {
	s := "preset " + e.Preset
	if e.Line > 0 {
		s += fmt.Sprintf(": line %d", e.Line)
	}
	if e.Key != "" {
		s += ": " + model.Shorten(e.Key)
	}
	return s + ": " + e.Err.Error()
}

func (e *PresetError) Unwrap() error { return e.Err }

// Names returns the names of the presets that the package has, sorted.
func Names() []string {
	list, _ := fs.Glob(presetFiles, "presets/*.toml")
	names := make([]string, len(list))
	for i, f := range list {
		names[i] = strings.TrimSuffix(strings.TrimPrefix(f, "presets/"), ".toml")
	}
	slices.Sort(names) // a name goes before itself with a suffix
	return names
}

// Builtin returns the preset of that name that the package has.
func Builtin(name string) (*Preset, error) {
	text, err := presetFiles.ReadFile("presets/" + name + ".toml")
	if err != nil {
		return nil, fmt.Errorf("preset %q does not exist; there are %s", name, strings.Join(Names(), ", "))
	}
	return Parse(name, text)
}

// Parse reads a preset from TOML. Its errors are PresetErrors. For example:
//
//	about = "cxl2-fpga with half the latency, and completions in its own memory"
//	base = "cxl2-fpga"
//
//	[price.d2h_read_dram]
//	ns = 250
//	range = [200, 400]
//	trust = "I"
//	source = "a guess: half of the FPGA's"
//
//	[place]
//	cq = "dev"
//
// At the top level there are these keys, of which one of base and fabric is needed:
//
//	about   one sentence
//	base    the name of a preset that the package has; what the file does not say is as there
//	fabric  mesi, cxl.cache, cxl.cache+mem, pcie, pool or pool-bi
//	bias    of device memory: host or device; if missing, as in base, or host
//
// A table [price.NAME] is a price, which is used for all kinds of lines. [price."NAME.KIND"] is its value for
// one kind of line. It has either a number or a recipe, and always trust and source:
//
//	ns      nanoseconds, or a count of lines for loads_in_flight and stores_in_flight
//	of      the name of another price; this one is ratio times that
//	ratio   if missing, 1
//	plus    a list of prices to add; minus is a list of prices to subtract
//	range   the least and the most of ns, or of ratio, as a list of two numbers
//	trust   a letter: M, P, S, R or I (see Trust)
//	source  where the number comes from, in words
//
// The table [place] has structures as keys (see Structure), and the values host, dev and pool. The
// table [request] has keys such as "record.poll" (see Preset), and the requests of the device as values.
func Parse(name string, text []byte) (*Preset, error) { return parse(name, text, nil) }

// parse is Parse for a preset that the presets in path are based on, the nearest last.
func parse(name string, text []byte, path []string) (*Preset, error) {
	at := source{name, text}
	var f file
	dec := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		return nil, at.decodeError(err)
	}
	p := &Preset{Place: map[model.Structure]Home{}, Request: map[string]Request{},
		recipes: map[string]recipe{}}
	if f.Base != "" {
		if path = append(path, name); slices.Contains(path, f.Base) {
			return nil, at.errorf("base", "a cycle: %s", strings.Join(append(path, f.Base), ", "))
		}
		base, err := presetFiles.ReadFile("presets/" + f.Base + ".toml")
		if err != nil {
			return nil, at.errorf("base", "preset %q does not exist", f.Base)
		}
		if p, err = parse(f.Base, base, path); err != nil {
			return nil, err
		}
	}
	p.Name, p.About = name, f.About
	if f.About == "" {
		return nil, at.errorf("about", "is missing: one sentence")
	}
	if f.Fabric != "" || p.Fabric == nil {
		p.Fabric = fabricNamed(f.Fabric)
		if p.Fabric == nil {
			return nil, at.errorf("fabric", "%q is none of %s", f.Fabric, fabricNames())
		}
	}
	switch f.Bias {
	case "":
	case "host":
		p.Bias = HostBias
	case "device":
		p.Bias = DeviceBias
	default:
		return nil, at.errorf("bias", "%q is neither host nor device", f.Bias)
	}
	if err := at.checkTexts(&f); err != nil {
		return nil, err
	}
	for key, price := range f.Price {
		p.recipes[key] = recipe{price, &at}
	}
	if err := p.resolve(); err != nil {
		return nil, err
	}
	for key, home := range sorted(f.Place) {
		if err := p.place(key, home); err != nil {
			return nil, at.errorf("place."+key, "%w", err)
		}
	}
	for key, req := range sorted(f.Request) {
		if err := p.request(key, req); err != nil {
			return nil, at.errorf("request."+key, "%w", err)
		}
	}
	for key := range sorted(f.Price) {
		if !p.uses(key) {
			return nil, at.errorf("price."+key, "no rule needs this price, and no other price is computed from it")
		}
	}
	if err := p.complete(); err != nil {
		return nil, at.errorf("price", "%w", err)
	}
	return p, nil
}

// maxPrices is the most prices in a file, because a price may be computed from a chain of all others.
const maxPrices = 1000

// checkTexts returns an error if there are too many prices, or if a text that is printed later has characters
// that a terminal would obey.
func (s *source) checkTexts(f *file) error {
	odd := func(r rune) bool { return !unicode.IsPrint(r) }
	if len(f.Price) > maxPrices {
		return s.errorf("price", "there are %d prices, more than %d", len(f.Price), maxPrices)
	}
	if strings.ContainsFunc(f.About, odd) {
		return s.errorf("about", "%q has characters that cannot be printed", f.About)
	}
	for key, price := range sorted(f.Price) {
		if strings.ContainsFunc(key, odd) {
			return s.errorf("price", "the name %q has characters that cannot be printed", key)
		}
		if strings.ContainsFunc(price.Source, odd) {
			return s.errorf("price."+key+".source", "%q has characters that cannot be printed", price.Source)
		}
	}
	return nil
}

// complete returns an error if a price is missing that a rule of the fabric needs.
func (p *Preset) complete() error {
	for _, r := range p.Fabric.Rules {
		for _, name := range slices.Concat(r.Path, r.Shown) {
			if _, ok := p.Price[name]; !ok {
				return fmt.Errorf("%s is missing, which a %v needs on fabric %s", name, r.Req, p.Fabric.Name)
			}
		}
	}
	for _, name := range always {
		if _, ok := p.Price[name]; !ok {
			return fmt.Errorf("%s is missing, which every preset needs", name)
		}
	}
	return nil
}

// uses reports whether a rule of some fabric, or another price, needs a price. The part of a name after a dot
// is the kind of line that the price is for.
func (p *Preset) uses(name string) bool {
	if general, kind, ok := strings.Cut(name, "."); ok {
		return slices.Contains(model.KindNames(), kind) && p.uses(general)
	}
	for _, f := range fabrics {
		for _, r := range f.Rules {
			if slices.Contains(r.Path, name) || slices.Contains(r.Shown, name) {
				return true
			}
		}
	}
	for _, from := range p.recipes {
		if from.Of == name || slices.Contains(from.Plus, name) || slices.Contains(from.Minus, name) {
			return true
		}
	}
	return name == "handover" || slices.Contains(always, name) || slices.Contains(ofRack, name)
}

// ofRack are prices that only a rack needs: how long a line takes a device of the pool, and the link of a
// host.
var ofRack = prices(poolLine, hostLine)

const (
	poolLine = "pool_line"
	hostLine = "host_line"
)

// always are the quantities that a preset needs besides the prices of its fabric's rules. The lines that a
// core has in flight divide the latency of the further lines of a block. A device that is no core reads and
// writes one further line each next_read and next_write. The time that host and device compute is
// host_work and device_work, for each access of the operation Work.
var always = prices("loads_in_flight", "stores_in_flight", "next_read", "next_write", "host_work",
	"device_work")

// With returns a copy of p with other placements, requests and prices. The maps' keys are those of preset
// files: "sq", "record.poll", and "price.link" or "link"; the values are "dev", "CO-read", and a number or a
// range such as "300..750". Prices that are computed from others follow these. The name stays the same; to
// distinguish the two in a Comparison, change Name of the copy.
func (p *Preset) With(place, request, price map[string]string) (*Preset, error) {
	c := *p
	c.recipes, c.Place, c.Request = maps.Clone(p.recipes), maps.Clone(p.Place), maps.Clone(p.Request)
	for key, v := range sorted(place) {
		if err := c.place(key, v); err != nil {
			return nil, &PresetError{Preset: p.Name, Key: "place." + key, Err: err}
		}
	}
	for key, v := range sorted(request) {
		if err := c.request(key, v); err != nil {
			return nil, &PresetError{Preset: p.Name, Key: "request." + key, Err: err}
		}
	}
	for key, v := range sorted(price) {
		if err := c.set(strings.TrimPrefix(key, "price."), v); err != nil {
			return nil,
				&PresetError{Preset: p.Name, Key: "price." + strings.TrimPrefix(key, "price."), Err: err}
		}
	}
	if err := c.resolve(); err != nil {
		return nil, err
	}
	return &c, nil
}

// WithPrices returns a copy of p named name, with measured prices instead of its own or in addition. Prices
// that p computes from others follow these.
func (p *Preset) WithPrices(name string, list map[string]Quantity) (*Preset, error) {
	c := *p
	c.Name, c.recipes = name, maps.Clone(p.recipes)
	at := &source{name: name}
	for key, q := range list {
		c.recipes[key] = recipe{filePrice{NS: &q.Value, Range: []float64{q.Low, q.High},
			Trust: q.Trust.Letter(), Source: q.Source}, at}
	}
	if err := c.resolve(); err != nil {
		return nil, err
	}
	return &c, nil
}

// sorted ranges over a map in the order of its keys, so that errors do not depend on chance.
func sorted[V any](m map[string]V) func(yield func(string, V) bool) {
	return func(yield func(string, V) bool) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !yield(k, m[k]) {
				return
			}
		}
	}
}
