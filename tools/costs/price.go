package costs

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// resolve computes all prices from their recipes.
func (p *Preset) resolve() error {
	r := resolver{recipes: p.recipes, done: make(map[string]Quantity, len(p.recipes))}
	for name, from := range sorted(p.recipes) {
		if _, err := r.price(name, from.at, "price."+name); err != nil {
			return err
		}
	}
	p.Price = r.done
	return nil
}

// A resolver computes prices that are made of other prices.
type resolver struct {
	recipes map[string]recipe
	path    []string // prices that are being computed, outermost first
	done    map[string]Quantity
}

// price returns a price. The arguments at and key say where it is needed.
func (r *resolver) price(name string, at *source, key string) (Quantity, error) {
	if q, ok := r.done[name]; ok {
		return q, nil
	}
	from, ok := r.recipes[name]
	if !ok {
		return Quantity{}, at.errorf(key, "there is no price %q", name)
	}
	if slices.Contains(r.path, name) {
		return Quantity{}, at.errorf(key, "a cycle: %s", strings.Join(append(r.path, name), ", "))
	}
	r.path = append(r.path, name)
	q, err := r.compute(name, from)
	r.path = r.path[:len(r.path)-1]
	if err == nil {
		r.done[name] = q
	}
	return q, err
}

// compute evaluates one recipe.
func (r *resolver) compute(name string, f recipe) (q Quantity, err error) {
	key := "price." + name
	bad := func(field, format string, args ...any) (Quantity, error) {
		return Quantity{}, f.at.errorf(key+field, format, args...)
	}
	t := strings.Index(trustLetters, f.Trust)
	switch {
	case len(f.Trust) != 1 || t < 0:
		return bad(".trust", "%q is not one of the letters %s", f.Trust, trustLetters)
	case strings.TrimSpace(f.Source) == "":
		return bad(".source", "is missing: where does the number come from?")
	case (f.NS == nil) == (f.Of == ""):
		return bad("", "needs ns, or of and ratio, and not both")
	case f.NS != nil && (f.Ratio != nil || f.Plus != nil || f.Minus != nil):
		return bad("", "ratio, plus and minus belong to of, not to ns")
	case len(f.Range) != 0 && len(f.Range) != 2:
		return bad(".range", "has %d numbers and not 2", len(f.Range))
	}
	number, field := f.NS, ".ns"
	if f.Of != "" {
		one := 1.0
		if number, field = f.Ratio, ".ratio"; number == nil {
			number = &one
		}
	}
	q = Quantity{*number, *number, *number, Trust(t), f.Source}
	if len(f.Range) == 2 {
		q.Low, q.High = f.Range[0], f.Range[1]
	}
	if err := q.check(); err != nil {
		return bad(field, "%w", err)
	}
	if f.Of == "" {
		return q, nil
	}
	of, err := r.price(f.Of, f.at, key+".of")
	if err != nil {
		return q, err
	}
	q.Value, q.Low, q.High = q.Value*of.Value, q.Low*of.Low, q.High*of.High
	q.Trust = max(q.Trust, of.Trust)
	for _, part := range f.Plus {
		o, err := r.price(part, f.at, key+".plus")
		if err != nil {
			return q, err
		}
		q.Value, q.Low, q.High, q.Trust = q.Value+o.Value, q.Low+o.Low, q.High+o.High, max(q.Trust, o.Trust)
	}
	// A subtracted price moves with the total, as a part of it, so its ends go with the same ends.
	for _, part := range f.Minus {
		o, err := r.price(part, f.at, key+".minus")
		if err != nil {
			return q, err
		}
		q.Value, q.Low, q.High, q.Trust = q.Value-o.Value, q.Low-o.Low, q.High-o.High, max(q.Trust, o.Trust)
	}
	// At the least nothing is left.
	q.Low, q.High = max(min(q.Low, q.Value, q.High), min(q.Value, 0)), max(q.Low, q.Value, q.High)
	if err := q.check(); err != nil {
		return bad("", "%w", err)
	}
	return q, nil
}

// set replaces the recipe of a price by a number or a range such as "420" or "300..750".
func (p *Preset) set(name, text string) error {
	old, ok := p.Price[name]
	if !ok {
		return fmt.Errorf("preset %s has no such price; it has %s", p.Name, strings.Join(slices.Sorted(maps.Keys(p.Price)), ", "))
	}
	lowText, highText, isRange := strings.Cut(text, "..")
	lo, err := strconv.ParseFloat(lowText, 64)
	hi := lo
	if err == nil && isRange {
		hi, err = strconv.ParseFloat(highText, 64)
	}
	if err != nil {
		return fmt.Errorf("%q is neither a number nor a range such as 300..750; units are not written: prices are in ns", text)
	}
	if lo > hi {
		return fmt.Errorf("%s is a range that goes from high to low; the lower end comes first", text)
	}
	q := Quantity{Value: (lo + hi) / 2, Low: lo, High: hi}
	if err := q.check(); err != nil {
		return err
	}
	p.recipes[name] = recipe{filePrice{NS: &q.Value, Range: []float64{lo, hi}, Trust: old.Trust.Letter(),
		Source: fmt.Sprintf("chosen by the user; the preset has %.4g", old.Value)}, &source{name: p.Name}}
	return nil
}

// atEnd returns a copy of p with one price at an end of its range, and those computed from it.
func (p *Preset) atEnd(name string, end level) (*Preset, error) {
	c := *p
	c.recipes = maps.Clone(p.recipes)
	from := c.recipes[name]
	v := from.Range[end-low]
	if from.Of != "" {
		from.Ratio = &v
	} else {
		from.NS = &v
	}
	from.Range = nil
	c.recipes[name] = from
	return &c, c.resolve()
}

// has reports whether p has a price.
func (p *Preset) has(name string) bool {
	_, ok := p.Price[name]
	return ok
}
