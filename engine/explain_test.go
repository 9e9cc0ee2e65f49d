package engine

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// logged returns a configuration, and the buffer to which an engine with this configuration
// writes its log.
func logged() (Config, *bytes.Buffer) {
	b := new(bytes.Buffer)
	return Config{Log: slog.New(slog.NewTextHandler(b, nil))}, b
}

// Each fault is explained once, with its code, its queue pair and a sentence. A refused remote
// key is explained to both sides.
func TestFaultsAreExplained(t *testing.T) {
	for _, f := range mistakes() {
		t.Run(f.name, func(t *testing.T) {
			c, said := logged()
			s := newScene(t, c)
			holdClock(s.e) // a fault that comes twice is explained once, however long the second takes
			f.run(s)
			text := said.String()
			// The code key-refused gives no reason.
			require.Equal(t, 1, strings.Count(text, "code=")-strings.Count(text, "code=key-refused "), text)
			require.Contains(t, text, "queue=0x")
			require.NotContains(t, text, "%!", "a format that does not fit its values")
		})
	}
}

// If the same fault is repeated, it is explained once in a while. Explanations that are held
// back are counted.
func TestExplanationsAreHeldBack(t *testing.T) {
	c, said := logged()
	s := newScene(t, c)
	p, _ := s.transport(control.QPTypeUD)
	next := p.h.events()
	lose := func(n int) {
		to := s.idle.to() // not a UD queue pair
		for range n {
			p.post(ctrl(wqe.OpSend), to, s.local.data(0, 8))
			s.settle()
		}
		require.Len(t, p.scq.all(), n)
	}
	told := func() (list []*control.Event) {
		for ev := next(); ev != nil; ev = next() {
			list = append(list, ev)
		}
		return list
	}
	k := &p.h.c.Quiet[codes.UDNoReceiver]

	k.Until = 0
	lose(1)
	k.Until = ^uint64(0)
	lose(7)
	list := told()
	require.Len(t, list, 1)
	require.Zero(t, list[0].Suppressed)

	// Explanations with another code, and those to another client, are not held back.
	s.q.post(ctrl(0x7f))
	s.p.post(ctrl(0x7f))
	s.settle()
	require.Len(t, told(), 1)

	k.Until = 0
	lose(1)
	list = told()
	require.Len(t, list, 1)
	require.Equal(t, uint32(7), list[0].Suppressed)
	require.Contains(t, said.String(), "unsaid=7")
	require.Equal(t, uint64(10), p.h.c.Count[control.CounterExplained])
}

// The number of explanations that are written to the log in a second is limited, for all
// clients together and for each client. So no client keeps the lines of others out of the log.
// The log says how many lines were held back. Clients still receive all explanations.
func TestLogHasABudget(t *testing.T) {
	c, said := logged()
	s := newScene(t, c)
	var second time.Duration // the clock of the budget
	s.e.Explained.SetClock(func() time.Duration { return second * time.Second })
	next := s.p.h.events()
	s.q.h.c.UID++ // makes q's client another user's
	again := func(p *end, text string) {
		p.h.c.Quiet[codes.Opcode].Until = 0
		s.e.ExplainQueue(p.q, codes.Opcode, "%s", text)
	}
	for range object.LogBudget + 9 {
		again(s.p, "again")
		require.NotNil(t, next())
	}
	again(s.q, "another user")
	s.e.Journal.Flush(time.Minute)
	require.Equal(t, object.LogBudget/4, strings.Count(said.String(), "again"))
	require.Contains(t, said.String(), "another user")
	second++
	again(s.p, "more")
	s.e.Journal.Flush(time.Minute)
	require.Regexp(t, "more.* unsaid=84\n", said.String())
}

// Explanations are counted even if neither a client nor a log receives them. An explanation
// that finds the socket full counts as held back.
func TestExplanationsNobodyHears(t *testing.T) {
	s := newScene(t, Config{})
	s.p.post(ctrl(0x7f))
	s.settle()
	require.Equal(t, uint64(1), s.p.h.c.Count[control.CounterExplained])

	next := s.p.h.events()
	k, n := &s.p.h.c.Quiet[codes.DSZero], 0
	for ; k.Held == 0; n++ {
		require.Less(t, n, 100_000, "the socket takes everything")
		k.Until = 0
		s.e.ExplainQueue(s.p.q, codes.DSZero, "again")
	}
	for next() != nil {
	}
	k.Until = 0
	s.e.ExplainQueue(s.p.q, codes.DSZero, "again")
	require.Equal(t, uint32(1), next().Suppressed)
}

// The bytes of an explanation are those of the WQE that it is about, even if the device has
// read WQEs of other clients since.
func TestExplanationsShowNobodyElsesBytes(t *testing.T) {
	c, _ := logged()
	c.Slice = 64
	s := newScene(t, c)
	heard := s.p.h.events()
	secret := func() { // the device executes a WQE of another client
		s.idle.post(ctrl(wqe.OpRDMAWrite), s.local.raddr(128), []byte("secret secret secret secret secret secret"))
	}
	s.q.recv(s.far.data(0, 256))
	// In slices, refused at its end.
	inval := s.p.post(wqe.Ctrl{Opcode: wqe.OpSendInval, Imm: s.far.key}, s.local.data(0, 256))
	secret()
	s.settle()
	ev := heard()
	require.Equal(t, []any{codes.SendInval.String(), inval}, []any{strings.TrimRight(string(ev.Code[:]), "\x00"), ev.Index})
	require.Zero(t, ev.HasWQE)
	require.NotContains(t, string(ev.WQE[:]), "secret")

	s.p.reset(s.q)
	s.q.reset(s.p)
	s.p.q.Attr.RNRRetry = 1
	s.p.post(ctrl(wqe.OpSend), s.local.data(0, 8)) // waits for a receive, then fails
	s.settle()
	secret()
	s.expire()
	ev = heard()
	require.Equal(t, s.p.sq[:64], ev.WQE[:])
}
