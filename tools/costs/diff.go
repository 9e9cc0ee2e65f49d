package costs

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
)

// A Diff is what differs between two presets.
type Diff struct {
	Presets [2]string    `json:"presets"`
	Rows    []Difference `json:"differences"`
	Trust   [2]string    `json:"trust"` // the weakest of each
}

// A Difference is a key of two presets, such as "price.link" or "place.cq", and its two values.
type Difference struct {
	Key    string    `json:"key"`
	Values [2]string `json:"values"` // "-": the preset has no such key
}

// DiffPresets returns what differs between two presets. Only values count, not their sources.
func DiffPresets(a, b *Preset) *Diff {
	d := &Diff{Presets: [2]string{a.Name, b.Name},
		Trust: [2]string{a.Weakest().String(), b.Weakest().String()}}
	all := [2]map[string]string{a.List().flat(), b.List().flat()}
	keys := slices.Concat(slices.Collect(maps.Keys(all[0])), slices.Collect(maps.Keys(all[1])))
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		row := Difference{Key: key, Values: [2]string{"-", "-"}}
		for i := range all {
			if v, ok := all[i][key]; ok {
				row.Values[i] = v
			}
		}
		if row.Values[0] != row.Values[1] {
			d.Rows = append(d.Rows, row)
		}
	}
	return d
}

// flat returns all values of a listing by their keys.
func (l *Listing) flat() map[string]string {
	m := map[string]string{"fabric": l.Fabric}
	if l.Bias == DeviceBias.String() {
		m["bias"] = l.Bias
	}
	for k, v := range l.Place {
		m["place."+k] = v
	}
	for k, v := range l.Requests {
		m["request."+k] = v
	}
	for _, q := range l.Prices {
		n := precisionOf(q.Trust)
		m["price."+q.Price] = fmt.Sprintf("%s (%s..%s) %s", digits(q.Value, n), digits(q.Low, n),
			digits(q.High, n), q.Trust)
	}
	return m
}

// JSON writes the differences as one object of JSON.
func (d *Diff) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(d)
}

// Table writes a row for each key that differs. After a price come its range and the letter of its trust.
func (d *Diff) Table(w io.Writer) error {
	var g grid
	g.head([]string{"what differs", d.Presets[0], d.Presets[1]})
	for _, row := range d.Rows {
		g.row(row.Key, row.Values[:])
	}
	text := g.text()
	if len(d.Rows) == 0 {
		text = fmt.Sprintf("%s and %s have the same numbers, places and requests\n", d.Presets[0], d.Presets[1])
	}
	_, err := fmt.Fprintf(w, "%s\nweakest: %s in %s, %s in %s; ranges are in parentheses\n", text, d.Trust[0], d.Presets[0], d.Trust[1], d.Presets[1])
	return err
}
