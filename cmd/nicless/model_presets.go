package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nicless/nicless/tools/costs"
)

// load returns the presets, changed as the flags ask. If a flag changes a price or a request that only some
// of the presets have, load changes these presets, and names the others on stderr.
func (f *modelFlags) load(names []string, stderr io.Writer) (list []*costs.Preset, err error) {
	if len(names) == 0 {
		return nil, usagef("nicless model presets lists them", "model: --preset names no preset")
	}
	for _, name := range names {
		p, err := loadPreset(name)
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	place, err := parsePairs("place", f.place)
	if err != nil {
		return nil, err
	}
	for i := range list {
		list[i], err = list[i].With(place, nil, nil)
		if err != nil {
			return nil, usagef("nicless model show "+names[i]+" prints its fabric and places", "model: --place: %w", err)
		}
	}
	request, err := parsePairs("request", f.request)
	if err != nil {
		return nil, err
	}
	if f.changed("ncp") {
		value := "NC-write"
		if f.ncp {
			value = "NC-P"
		}
		for _, key := range []string{"payload.store", "cqe.store"} {
			if _, ok := request[key]; !ok {
				request[key] = value
			}
		}
	}
	// In record.poll=CO-read, the key names accesses of the device, and the value names the request that such
	// an access becomes. A preset takes every valid key, but only the requests of its fabric, so the value
	// decides whether a preset can be changed.
	for key, v := range sortedPairs(request) {
		change := map[string]string{requestKey(key): v}
		err := changeSome(list, "request."+key+"="+v, "no such request", stderr,
			func(p *costs.Preset) bool { return p.Fabric.Has(v) },
			func(p *costs.Preset) (*costs.Preset, error) { return p.With(nil, change, nil) })
		if err != nil {
			return nil, usagef("nicless model show PRESET prints the requests of its device", "model: --request: %w", err)
		}
	}
	set, err := parsePairs("set", f.set)
	if err != nil {
		return nil, err
	}
	for key, v := range sortedPairs(set) {
		change := map[string]string{key: v}
		err := changeSome(list, key+"="+v, "no such price", stderr,
			func(p *costs.Preset) bool { _, ok := p.Price[strings.TrimPrefix(key, "price.")]; return ok },
			func(p *costs.Preset) (*costs.Preset, error) { return p.With(nil, nil, change) })
		if err != nil {
			return nil, usagef("nicless model show PRESET prints its prices", "model: --set: %w", err)
		}
	}
	return list, nil
}

// changeSome changes the presets of list that have what is to be changed, and names the others on stderr.
// what is the change, lack says what the others lack. If no preset can be changed, changeSome returns the
// error of a change.
func changeSome(list []*costs.Preset, what, lack string, stderr io.Writer, has func(*costs.Preset) bool,
	change func(*costs.Preset) (*costs.Preset, error)) error {
	var lacking []string
	for i, p := range list {
		if !has(p) {
			lacking = append(lacking, p.Name)
			continue
		}
		changed, err := change(p)
		if err != nil {
			return err
		}
		list[i] = changed
	}
	if len(lacking) == len(list) {
		// If a fabric has reads, the error about a request lists the requests of the fabric.
		refuses := list[0]
		for _, p := range list {
			if len(p.Fabric.Reads) > 0 {
				refuses = p
				break
			}
		}
		_, err := change(refuses)
		return err
	}
	if len(lacking) > 0 {
		fmt.Fprintf(stderr, "nicless: note: %s: unchanged, having %s: %s\n", what, lack, strings.Join(lacking, ", "))
	}
	return nil
}

// loadPreset returns the preset that an element of --preset names: a built-in one or a file, followed by
// changes such as +cq=dev, +record.poll=CO-read or +price.link=300.
func loadPreset(text string) (*costs.Preset, error) {
	const hint = `"nicless model presets" lists the presets; files end with .toml`
	// The changes are at the end, and each has a =. A + before them belongs to the name of a file.
	parts := strings.Split(text, "+")
	var changes []string
	for len(parts) > 1 && strings.Contains(parts[len(parts)-1], "=") {
		changes = append(changes, parts[len(parts)-1])
		parts = parts[:len(parts)-1]
	}
	name := strings.Join(parts, "+")
	var p *costs.Preset
	var err error
	switch {
	case strings.HasSuffix(name, ".toml"):
		p, err = readPreset(name)
	case slices.Contains(costs.Names(), name):
		p, err = builtinPreset(name)
	default:
		_, noPreset := costs.Builtin(name) // the error that lists the presets
		return nil, usagef(hint, "model: %w", noPreset)
	}
	if err != nil || len(changes) == 0 {
		return p, err
	}
	place, request, price := map[string]string{}, map[string]string{}, map[string]string{}
	for _, c := range changes {
		key, v, _ := strings.Cut(c, "=")
		_, isStructure := costs.ParseStructure(key)
		switch {
		case strings.HasPrefix(key, "price."):
			price[key] = v
		case isStructure:
			place[key] = v
		default:
			request[requestKey(key)] = v
		}
	}
	if p, err = p.With(place, request, price); err != nil {
		return nil, usagef(hint, "model: --preset %s: %w", text, err)
	}
	p.Name = strings.TrimSuffix(filepath.Base(name), ".toml") + strings.TrimPrefix(text, name)
	return p, nil
}

// maxPreset is the most bytes of a preset's file.
const maxPreset = 1 << 20

// readPreset reads a preset from a file. The preset is named after the file. Errors have the path of the
// file.
func readPreset(path string) (*costs.Preset, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("model: preset: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxPreset+1))
	if err != nil {
		return nil, fmt.Errorf("model: preset: %w", err)
	}
	if len(text) > maxPreset {
		return nil, fmt.Errorf("model: preset %s: more than %d bytes", path, maxPreset)
	}
	p, err := costs.Parse(path, text)
	if err != nil {
		var bad *costs.PresetError
		isBad := errors.As(err, &bad)
		if isBad && bad.Preset != path { // the fault is in a preset on which this preset is based
			err = fmt.Errorf("preset %s: %w", path, err)
		}
		if isBad {
			return nil, hintf("go doc github.com/nicless/nicless/model Parse describes the form, and nicless model show cxl1-fpga --toml prints an example", "model: %w", err)
		}
		return nil, fmt.Errorf("model: %w", err)
	}
	p.Name = strings.TrimSuffix(filepath.Base(path), ".toml")
	return p, nil
}

// requestKey returns the key of a request under which costs knows it. Users may call the doorbell record
// dbrec, as in --place; costs calls it record.
func requestKey(key string) string {
	if rest, ok := strings.CutPrefix(key, "dbrec."); ok {
		return "record." + rest
	}
	return key
}

// parsePairs returns the keys and values of a flag such as --place sq=host,cq=dev. flag is the name of the
// flag, for errors.
func parsePairs(flag string, list []string) (map[string]string, error) {
	m := map[string]string{}
	for _, text := range list {
		key, v, ok := strings.Cut(strings.TrimSpace(text), "=")
		if !ok || key == "" || v == "" {
			return nil, usagef("for instance: --place cq=dev,rq=dev, --request record.poll=CO-read, --set price.link=300",
				"model: --%s %q is not a key, = and a value", flag, text)
		}
		if old, ok := m[key]; ok && old != v {
			return nil, usagef("give it once", "model: --%s: %s is both %s and %s", flag, key, old, v)
		}
		m[key] = v
	}
	return m, nil
}

// sortedPairs ranges over a map in the order of its keys.
func sortedPairs(m map[string]string) func(yield func(string, string) bool) {
	return func(yield func(string, string) bool) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !yield(k, m[k]) {
				return
			}
		}
	}
}
