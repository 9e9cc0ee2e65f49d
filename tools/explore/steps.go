//go:build linux && (amd64 || arm64)

package explore

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// mostShown is how many steps of a plan are printed: a screen.
const mostShown = 20

// Lines returns a plan as lines of text: its links, and then its steps in order.
func (p *Plan) Lines() (lines []string) {
	for i := range p.Links {
		lines = append(lines, fmt.Sprintf("%-17s%s", fmt.Sprintf("link %d", i), p.Links[i].text(i)))
	}
	for i := range p.Steps {
		lines = append(lines, fmt.Sprintf("%-17s%s", fmt.Sprintf("step %d", i), p.Steps[i].text()))
	}
	return lines
}

func (l *Link) text(i int) string {
	s := fmt.Sprintf("%s, qp %s of client %d and qp %s of client %d", l.Transport, hex(firstQP+uint32(2*i)), l.Ends[0],
		hex(firstQP+uint32(2*i+1)), l.Ends[1])
	if l.Shared {
		s += ", shared receives"
	}
	if l.Register {
		s += ", registers"
	}
	return s
}

func (s *Step) text() string {
	qp := "qp " + hex(firstQP+uint32(s.QP))
	switch s.Do {
	case Post:
		list := make([]string, len(s.Work))
		for i := range s.Work {
			list[i] = s.Work[i].text()
		}
		return fmt.Sprintf("post to %s: %s", qp, strings.Join(list, "; "))
	case Receive:
		return fmt.Sprintf("post %s of %s to %s", count(s.N, "receive"), count(s.Size, "byte"), qp)
	case Poll:
		return fmt.Sprintf("poll %s of %s", count(s.N, "completion"), qp)
	case Run:
		return "step the device " + count(s.N, "time")
	case StepAll:
		return "step the device until it has nothing to do"
	case Advance:
		return fmt.Sprintf("let %v pass", time.Duration(s.Time))
	case Rules:
		if s.Rules == nil {
			return "end the rules"
		}
		b, err := json.Marshal(s.Rules)
		if err != nil {
			return "rules: " + err.Error()
		}
		return "rules: " + string(b)
	case Deregister:
		return fmt.Sprintf("deregister the key of %s's %s", qp, []string{"memory", "receives"}[min(s.N, 1)])
	case Kill:
		return fmt.Sprintf("close client %d", s.Client)
	}
	return s.Do + " " + qp
}

func (w *Work) text() string {
	op := opcodes[w.Op]
	s := fmt.Sprintf("%s, id %d, %s", w.Op, w.ID, count(w.N, "byte"))
	if remote(op) {
		s += fmt.Sprintf(" at %d", w.At)
	}
	if op.Info().Atomic() {
		s += fmt.Sprintf(", operand 0x%x, compare 0x%x", w.Operand, w.Compare)
	}
	if w.Pieces > 1 {
		s += ", " + count(w.Pieces, "piece")
	}
	for _, is := range []struct {
		set  bool
		name string
	}{{w.Inline, "inline"}, {w.Fence, "fence"}, {w.Silent, "no signal"}} {
		if is.set {
			s += ", " + is.name
		}
	}
	return s
}
