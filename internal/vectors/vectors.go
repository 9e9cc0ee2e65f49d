// Package vectors hands golden test vectors to the tests of the formats and of
// the posting path.
//
// The vectors are in testdata/vectors of the checkout. The directories named in
// NICLESS_VECTORS (separated by colons, relative to the module root) are read too; each may
// hold any subset of the files. Three schemas exist:
//
//   - nicless-vectors/1: each vector has fields, and the bytes that they stand for, from the
//     vendor's header;
//   - recordings (libmlx5-*.json): each has inputs, and the bytes and results that the
//     vendor's library made of them;
//   - nicless-roce/1: each vector is a packet recorded from a network, with its fields.
//
// A field that the reader does not know is an error, so that no vector passes a test that
// has checked only half of it.
package vectors

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Env is the environment variable that names directories to read besides the checkout's own.
const Env = "NICLESS_VECTORS"

// Schema is the schema name that a file of vectors must carry.
const Schema = "nicless-vectors/1"

// A Vector has fields and the bytes that they stand for.
type Vector struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Origin      string          `json:"origin"`
	Fields      json.RawMessage `json:"fields"`
	Bytes       Hex             `json:"bytes"`
}

// A Recording has a request and the result of the vendor's library.
type Recording struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Inputs      json.RawMessage `json:"inputs"`
	Expected    json.RawMessage `json:"expected"`
}

// RoCESchema is the schema name that a file of packets must carry.
const RoCESchema = "nicless-roce/1"

// A Packet is a RoCEv2 packet that was recorded on its way between two devices.
type Packet struct {
	Name   string          `json:"name"`
	What   string          `json:"what"`
	Fields json.RawMessage `json:"fields"`
	Bytes  Hex             `json:"bytes"` // from the BTH to the ICRC
	IP     struct {
		Src netip.Addr `json:"src"`
		Dst netip.Addr `json:"dst"`
	} `json:"ip"`
	UDP struct {
		SrcPort uint16 `json:"sport"`
		DstPort uint16 `json:"dport"`
	} `json:"udp"`
	IPHeader  Hex `json:"ip_header"`
	UDPHeader Hex `json:"udp_header"`
}

// Hex is bytes in memory order, written as lower-case hexadecimal digits.
type Hex []byte

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *Hex) UnmarshalText(text []byte) (err error) {
	*h, err = hex.DecodeString(string(text))
	return err
}

// Golden runs check on every vector of the named file (without ".json"), in
// every directory that has it, and logs how many it checked. kind is the kind
// that the file must declare. The checkout's own file must exist.
func Golden(t *testing.T, file, kind string, check func(*testing.T, Vector)) {
	t.Helper()
	type contents struct {
		Schema  string   `json:"schema"`
		Kind    string   `json:"kind"`
		Vectors []Vector `json:"vectors"`
	}
	each(t, file, func(t *testing.T, path string) int {
		var c contents
		read(t, path, &c)
		if c.Schema != Schema || c.Kind != kind {
			t.Fatalf("%s: schema %q, kind %q; want %q, %q", path, c.Schema, c.Kind, Schema, kind)
		}
		for _, v := range c.Vectors {
			t.Run(v.Name, func(t *testing.T) { check(t, v) })
		}
		return len(c.Vectors)
	})
}

// Recorded is Golden for recordings of the vendor's library.
func Recorded(t *testing.T, file string, check func(*testing.T, Recording)) {
	t.Helper()
	type contents struct {
		Source  string      `json:"source"`
		About   string      `json:"about"`
		Vectors []Recording `json:"vectors"`
	}
	each(t, file, func(t *testing.T, path string) int {
		var c contents
		read(t, path, &c)
		for _, r := range c.Vectors {
			t.Run(r.Name, func(t *testing.T) { check(t, r) })
		}
		return len(c.Vectors)
	})
}

// Packets is Golden for recorded packets.
func Packets(t *testing.T, file string, check func(*testing.T, Packet)) {
	t.Helper()
	type contents struct {
		Schema  string   `json:"schema"`
		Vectors []Packet `json:"vectors"`
	}
	each(t, file, func(t *testing.T, path string) int {
		var c contents
		read(t, path, &c)
		if c.Schema != RoCESchema {
			t.Fatalf("%s: schema %q; want %q", path, c.Schema, RoCESchema)
		}
		for _, p := range c.Vectors {
			t.Run(p.Name, func(t *testing.T) { check(t, p) })
		}
		return len(c.Vectors)
	})
}

// Decode unmarshals raw into v. If raw has a field that v does not have, it fails the test.
func Decode(t testing.TB, raw json.RawMessage, v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		t.Fatalf("vector not understood: %v\nin %s", err, raw)
	}
}

func each(t *testing.T, file string, run func(*testing.T, string) int) {
	t.Helper()
	for i, dir := range dirs(t) {
		path := filepath.Join(dir, file+".json")
		if _, err := os.Stat(path); i > 0 && errors.Is(err, fs.ErrNotExist) {
			continue // a directory in NICLESS_VECTORS may hold any subset of the files
		}
		name := "checkout"
		if i > 0 {
			name = fmt.Sprintf("%s-%d", Env, i)
		}
		t.Run(name, func(t *testing.T) {
			n := run(t, path)
			if n == 0 {
				t.Errorf("%s: no vectors", path)
			}
			t.Logf("%s: %d vectors checked (%s)", file, n, path)
		})
	}
}

func read(t *testing.T, path string, v any) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	Decode(t, raw, v)
}

// dirs returns the directories to read; the first is the checkout's own.
func dirs(t testing.TB) []string {
	t.Helper()
	root, err := treeRoot()
	if err != nil {
		t.Fatal(err)
	}
	list := []string{filepath.Join(root, "testdata", "vectors")}
	for _, d := range filepath.SplitList(os.Getenv(Env)) {
		if d = strings.TrimSpace(d); d == "" {
			continue
		}
		if !filepath.IsAbs(d) {
			d = filepath.Join(root, d)
		}
		if names, err := filepath.Glob(filepath.Join(d, "*.json")); err != nil || !anyKnown(names) {
			t.Fatalf("%s: %s is not a directory with files of vectors", Env, d)
		}
		list = append(list, d)
	}
	return list
}

// files has the names of all files that tests read.
var files = []string{
	"send_wqe", "send_ring", "recv_wqe", "cqe", "doorbell",
	"libmlx5-sq-rc", "libmlx5-sq-wrap", "libmlx5-sq-uc-ud", "libmlx5-sq-wr-api", "libmlx5-rq", "libmlx5-srq",
	"libmlx5-cq-arm", "libmlx5-cqe-wc", "libmlx5-cqe128-wc", "roce", "devx_in",
}

// anyKnown reports whether a test reads one of these paths. If the names in a directory are
// all misspelt, no vector in it is checked, and that must not pass for success.
func anyKnown(paths []string) bool {
	return slices.ContainsFunc(paths, func(p string) bool {
		return slices.Contains(files, strings.TrimSuffix(filepath.Base(p), ".json"))
	})
}

func treeRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "testdata", "vectors")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("vectors: no testdata/vectors above the test's directory")
		}
		dir = up
	}
}

// byName has the bytes of vectors that Bytes has read, by the path of the file and the name of the vector.
var byName sync.Map

// Bytes returns the bytes of one vector or packet of the checkout's own file, by its name. The caller must
// not change them.
func Bytes(t testing.TB, file, name string) []byte {
	t.Helper()
	path := filepath.Join(dirs(t)[0], file+".json")
	all, ok := byName.Load(path)
	if !ok {
		var c struct {
			Vectors []struct {
				Name  string `json:"name"`
				Bytes Hex    `json:"bytes"`
			} `json:"vectors"`
		}
		raw, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(raw, &c)
		}
		if err != nil {
			t.Fatal(err)
		}
		m := map[string][]byte{}
		for _, v := range c.Vectors {
			m[v.Name] = v.Bytes
		}
		byName.Store(path, m)
		all = m
	}
	b, ok := all.(map[string][]byte)[name]
	if !ok {
		t.Fatalf("%s: there is no vector %q", file, name)
	}
	return b
}
