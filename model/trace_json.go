package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Strict JSON for traces. The decoder of the standard library takes keys in any letters, and the last of
// two equal keys, and does not say which key is wrong; so keys are taken one by one.

// A keyError is an error about the value of a key.
type keyError struct {
	key string
	err error
}

func (e *keyError) Error() string { return e.key + ": " + e.err.Error() }
func (e *keyError) Unwrap() error { return e.err }

func keyErrorf(key, format string, args ...any) error {
	return &keyError{key, fmt.Errorf(format, args...)}
}

// A field reads the value of one key.
type field struct {
	key  string
	must bool // the key may not be missing
	read func(value []byte) error
}

// parseObject reads one JSON object whose keys are those of fields. It calls nothing for keys that are
// missing.
func parseObject(text []byte, fields []field) error {
	return eachKey(text, func(key string, value []byte) error {
		i := slices.IndexFunc(fields, func(f field) bool { return f.key == key })
		if i < 0 {
			var names []string
			for _, f := range fields {
				names = append(names, f.key)
			}
			return keyErrorf(Shorten(key), "is no key here; there are %s", strings.Join(names, ", "))
		}
		if err := fields[i].read(value); err != nil {
			return &keyError{key, err}
		}
		return nil
	}, func(seen map[string]bool) error {
		for _, f := range fields {
			if f.must && !seen[f.key] {
				return keyErrorf(f.key, "is missing")
			}
		}
		return nil
	})
}

// eachKey calls each for the keys of one JSON object, and done with the set of them.
func eachKey(text []byte, each func(key string, value []byte) error,
	done func(seen map[string]bool) error) error {
	if len(bytes.TrimSpace(text)) == 0 {
		return errors.New("is empty; each line is an object")
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	if t, err := dec.Token(); err != nil {
		return notJSON(err)
	} else if t != json.Delim('{') {
		return errors.New("is no object: it does not begin with {")
	}
	seen := map[string]bool{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return notJSON(err)
		}
		key := t.(string) // keys are strings, or Token fails
		if seen[key] {
			return keyErrorf(Shorten(key), "occurs twice")
		}
		seen[key] = true
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return notJSON(err)
		}
		if err := each(key, value); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return notJSON(err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return errors.New("has more after the object")
	}
	return done(seen)
}

func notJSON(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return errors.New("is no JSON: it ends within the object")
	}
	return fmt.Errorf("is no JSON: %w", err)
}

// Shorten returns a text of a stranger so that it fits into an error.
func Shorten(s string) string {
	if len(s) > 40 {
		return fmt.Sprintf("%.40q...", s)
	}
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
		return strconv.Quote(s)
	}
	return s
}

// number returns a reader for an integer of 0..most.
func number(to *int, most int) func([]byte) error {
	return func(value []byte) error {
		n, err := strconv.ParseUint(string(value), 10, 64)
		if err != nil || n > uint64(most) {
			return fmt.Errorf("%s is not an integer of 0..%d", Shorten(string(value)), most)
		}
		*to = int(n)
		return nil
	}
}

// numbers returns a reader for a list of integers.
func numbers(to *[]int, most, count int) func([]byte) error {
	return func(value []byte) error {
		var list []json.RawMessage
		if value[0] != '[' || json.Unmarshal(value, &list) != nil {
			return fmt.Errorf("%s is no list of integers", Shorten(string(value)))
		}
		if len(list) > count {
			return fmt.Errorf("has %d numbers, more than %d", len(list), count)
		}
		for _, v := range list {
			var n int
			if err := number(&n, most)(v); err != nil {
				return err
			}
			*to = append(*to, n)
		}
		return nil
	}
}

func text(value []byte) (s string, err error) {
	if value[0] != '"' || json.Unmarshal(value, &s) != nil {
		return "", fmt.Errorf("%s is no string", Shorten(string(value)))
	}
	return s, nil
}

// name returns a reader for one of a list of names, whose index is the value.
func name[T ~uint8](to *T, names []string) func([]byte) error {
	return func(value []byte) error {
		s, err := text(value)
		if err != nil {
			return err
		}
		i := slices.Index(names, s)
		if i < 0 {
			return fmt.Errorf("%s is none of %s", Shorten(string(value)), strings.Join(names, ", "))
		}
		*to = T(i)
		return nil
	}
}

// exactly returns a reader for a value of which there is one.
func exactly(want string) func([]byte) error {
	return func(value []byte) error {
		if string(value) != want {
			return fmt.Errorf("%s is not %s, the only one that this reader knows", Shorten(string(value)), want)
		}
		return nil
	}
}
