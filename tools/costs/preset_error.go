package costs

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// A source is the text of a preset, for errors that name the line.
type source struct {
	name string
	text []byte
}

func (s *source) errorf(key, format string, args ...any) error {
	return &PresetError{s.name, s.line(key), key, fmt.Errorf(format, args...)}
}

// line returns the number of the line in which a key is set, or of its table, or 0.
func (s *source) line(key string) (line int) {
	table, n := "", 0
	for text := range strings.Lines(string(s.text)) {
		n++
		text = strings.TrimSpace(text)
		if name, ok := strings.CutPrefix(text, "["); ok {
			name, _, _ = strings.Cut(name, "]")
			if table = strings.ReplaceAll(name, `"`, ""); table == key || strings.HasPrefix(key, table+".") {
				line = n
			}
			continue
		}
		name, _, ok := strings.Cut(text, "=")
		name = strings.Trim(strings.TrimSpace(name), `"`)
		if !ok || strings.HasPrefix(text, "#") {
			continue
		}
		if table != "" {
			name = table + "." + name
		}
		if name == key {
			return n
		}
	}
	return line
}

// decodeError returns an error of the TOML reader with its position.
func (s *source) decodeError(err error) error {
	var missing *toml.StrictMissingError
	if errors.As(err, &missing) {
		e := missing.Errors[0]
		row, _ := e.Position()
		return &PresetError{s.name, row, strings.Join(e.Key(), "."), errors.New("is no key of a preset")}
	}
	var bad *toml.DecodeError
	if errors.As(err, &bad) {
		row, _ := bad.Position()
		return &PresetError{s.name, row, strings.Join(bad.Key(), "."),
			errors.New(strings.TrimPrefix(bad.Error(), "toml: "))}
	}
	return &PresetError{s.name, 0, "", err}
}
