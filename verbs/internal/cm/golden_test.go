//go:build linux && (amd64 || arm64)

package cm

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Writes of real programs (rdmacm-utils 44 and perftest 4.5 of Debian 12), and the manager's
// answers. A file of testdata has the writes of a server and its client in the order in which
// they were made: "> FILE BYTES", where FILE is s or c and the number of a descriptor. Below a
// write are its result and the events that were read. With UPDATE_GOLDEN=1 the test writes the
// answers. A program waits in GET_EVENT; here the event is read as soon as it is there.
func TestGoldenPrograms(t *testing.T) {
	for _, name := range goldenFiles(t) {
		t.Run(filepath.Base(name), func(t *testing.T) {
			b, err := os.ReadFile(name)
			require.NoError(t, err)
			p := &replay{host: newRig(t).host("10.0.0.1"), files: make(map[string]*file), waits: make(map[string]int)}
			var out strings.Builder
			for _, w := range goldenWrites(t, name) {
				fmt.Fprintf(&out, "> %s %x\n%s", w.file, w.bytes, p.write(w))
			}
			if os.Getenv("UPDATE_GOLDEN") != "" {
				require.NoError(t, os.WriteFile(name, []byte(out.String()), 0o600))
			}
			require.Equal(t, string(b), out.String(), "UPDATE_GOLDEN=1 writes it")
			for _, f := range p.files {
				f.close()
			}
			p.ends()
		})
	}
}

func goldenFiles(t testing.TB) []string {
	names, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	return names
}

// A goldenWrite is one recorded write.
type goldenWrite struct {
	file  string
	bytes []byte
}

func goldenWrites(t testing.TB, name string) (all []goldenWrite) {
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	for _, line := range strings.Split(string(b), "\n") {
		if line, ok := strings.CutPrefix(line, "> "); ok {
			file, text, _ := strings.Cut(line, " ")
			written, err := hex.DecodeString(text)
			require.NoError(t, err)
			all = append(all, goldenWrite{file, written})
		}
	}
	return all
}

// A replay makes recorded writes.
type replay struct {
	*host
	files map[string]*file
	order []string // of files, by their first write
	waits map[string]int
}

func (p *replay) write(w goldenWrite) string {
	name, b := w.file, w.bytes
	f := p.file(name)
	var result string
	if le.Uint32(b) == abi.CMCmdGetEvent {
		p.waits[name]++
	} else {
		result = p.call(name, f, b)
	}
	return result + p.events()
}

func (p *replay) file(name string) *file {
	if p.files[name] == nil {
		p.files[name] = p.host.open()
		p.order = append(p.order, name)
	}
	return p.files[name]
}

// call makes one call and describes its result.
func (p *replay) call(name string, f *file, b []byte) string {
	c := &Call{Program: f.program, Channel: f.ch, Written: b}
	for {
		err := p.m.Serve(c)
		if err == nil {
			break
		}
		if err != ErrAgain {
			return fmt.Sprintf("  %s %s\n", c.Name(), unix.ErrnoName(err.(*Refusal).Errno))
		}
		for _, n := range c.Needs {
			r := f.meet(n)
			if n.Kind == NeedChannel {
				r.Channel = p.file(fmt.Sprint(name[:1], n.Addr)).ch
			}
			c.Results = append(c.Results, r)
		}
		c.Needs = nil
	}
	said := "  " + c.Name()
	switch number := le.Uint32(b); number {
	case abi.CMCmdCreateID, abi.CMCmdJoinMcast, abi.CMCmdDestroyID, abi.CMCmdLeaveMcast, abi.CMCmdMigrateID:
		said += fmt.Sprint(" ", le.Uint32(c.Stores[0].Bytes))
	case abi.CMCmdInitQPAttr:
		said += fmt.Sprintf(" %#x", le.Uint32(c.Stores[0].Bytes))
	case abi.CMCmdQuery:
		said += fmt.Sprintf(" %d bytes", len(c.Stores[0].Bytes))
	}
	return said + "\n"
}

// events reads the events for which programs wait.
func (p *replay) events() (said string) {
	for _, name := range p.order {
		f := p.files[name]
		for p.waits[name] > 0 && f.tokens > 0 {
			p.waits[name]--
			e := f.event()
			said += fmt.Sprintf("  %s reads %s id %d status %d\n", name, eventNames[eventKind(le.Uint32(e[abi.CMEventRespEvent:]))],
				idOf(e), int32(le.Uint32(e[abi.CMEventRespStatus:])))
		}
	}
	return said
}
