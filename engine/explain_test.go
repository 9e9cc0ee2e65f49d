package engine

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// logged returns an engine's configuration and what it has said so far.
func logged() (Config, *bytes.Buffer) {
	b := new(bytes.Buffer)
	return Config{Log: slog.New(slog.NewTextHandler(b, nil))}, b
}

// Each fault is explained once: with its code, its queue pair, and in a whole
// sentence.
func TestFaultsAreExplained(t *testing.T) {
	for _, f := range faults() {
		t.Run(f.name, func(t *testing.T) {
			c, said := logged()
			f.run(newScene(t, c))
			text := said.String()
			require.Equal(t, 1, strings.Count(text, "code="), text)
			require.Contains(t, text, "queue=0x")
			require.NotContains(t, text, "%!", "a format that does not fit its values")
		})
	}
}

// What hardware passes over in silence is said too, and not again and again.
func TestExplanations(t *testing.T) {
	for _, row := range []struct {
		text string
		f    func(s *scene)
	}{
		{"host byte order", func(s *scene) {
			r := s.far.raddr(0)
			r.RKey = r.RKey<<24 | r.RKey>>8&0xff<<16 | r.RKey>>16&0xff<<8 | r.RKey>>24
			s.p.post(ctrl(wqe.OpRDMAWrite), r, s.local.data(0, 8))
		}},
		{"variant", func(s *scene) {
			d := s.local.data(0, 8)
			d.LKey ^= 1
			s.p.post(ctrl(wqe.OpRDMAWrite), s.far.raddr(0), d)
		}},
		{"ds is 0", func(s *scene) { s.p.raw(make([]byte, 64)) }},
		{"the value is ignored", func(s *scene) {
			s.p.sent = 0x4000
			s.p.ring()
		}},
		{"not connected back", func(s *scene) {
			s.q.reset(s.idle)
			s.p.post(ctrl(wqe.OpRDMAWrite), s.far.raddr(0), s.local.data(0, 8))
		}},
		{"is in state RST", func(s *scene) {
			s.q.toState(0)
			s.p.post(ctrl(wqe.OpRDMAWrite), s.far.raddr(0), s.local.data(0, 8))
		}},
		{"Post receives first", func(s *scene) {
			s.p.q.attr.RNRRetry = 1
			s.p.post(ctrl(wqe.OpSend))
		}},
	} {
		t.Run(row.text, func(t *testing.T) {
			c, said := logged()
			s := newScene(t, c)
			row.f(s)
			s.expire()
			require.Contains(t, said.String(), row.text)
			require.Equal(t, 1, strings.Count(said.String(), "code="), said)
		})
	}
}
