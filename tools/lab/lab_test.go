package lab

import (
	"regexp"
	"strings"
	"testing"

	"github.com/nicless/nicless/internal/share"
	"github.com/stretchr/testify/require"
)

// Two machines share memory behind a PCI device.
func TestPCIe(t *testing.T) {
	long(t)
	share.Only(t, 0)
	t.Parallel()
	everything(t, newPair(t, "pcie", files(t, stock)))
}

// Two machines share a CXL memory device.
func TestCXL(t *testing.T) {
	long(t)
	share.Only(t, 1)
	t.Parallel()
	everything(t, newPair(t, "cxl", files(t, stock)))
}

// The same with the QEMU and the kernel of Debian's backports, whose memory is volatile.
func TestNewerCXL(t *testing.T) {
	long(t)
	if !*newer {
		t.Skip("QEMU and kernel of backports are used with -newer")
	}
	t.Parallel()
	m := files(t, ahead)
	everything(t, newPair(t, "cxl", m, m.newer.Variables()...))
}

// everything is what two machines show, whatever the memory is.
func everything(t *testing.T, p *pair) {
	a, b := p.nodes[0], p.nodes[1]
	steps := []struct {
		name string
		run  func()
	}{
		{"a cache line goes to and fro, and clocks go as the host's does", func() {
			first := p.uptimes()
			pong(p)
			p.goesLikeTheHosts(first, p.uptimes())
		}},
		{"posters without an engine in their machines", func() { onlyMemory(p) }},
		{"posters exchange data", func() {
			p.startEngines()
			exchange(a, b, 2)
			exchange(b, a, 2)
		}},
		{"a machine writes garbage", func() { garbage(p) }},
		{"a machine dies and comes back", func() { death(p) }},
	}
	for _, s := range steps {
		ok := t.Run(s.name, func(t *testing.T) {
			p.use(t)
			s.run()
		})
		if !ok {
			return
		}
	}
}

// aboutToDie is the code of the timeout for posters whose peer will die: eight tries last for 4 s. They first
// have to get some rounds done on a host that may be busy.
const aboutToDie = "17"

func pong(p *pair) {
	other := p.nodes[1].start("poster", "pong")
	said := p.nodes[0].run("poster", "pong")
	other.succeeds()
	require.Regexp(p.t, `(?m)^pong: 20000 lines to and fro; median `, said)
	p.t.Log(strings.TrimSpace(said))
}

// garbage lets node 1 write over its own part of the pool, and then over those of all nodes. Node 0 and the
// host exchange data: while node 1 writes over its own part, which is nothing to them, and after it has
// written over theirs, where what is on its way may become garbage, too. A new engine of node 1 works again.
func garbage(p *pair) {
	a, b := p.nodes[0], p.nodes[1]
	h := p.third()
	exchange(a, h, 1)
	for _, what := range []string{"own", "all"} {
		ask, answer := connect(a, b, "--rounds", "0", "--timeout", aboutToDie)
		ask.says(`round 2`)
		ended := b.start("poster", "scribble", "--passes", "3", what)
		if what == "all" {
			ended.succeeds()
		}
		exchange(a, h, 2)
		exchange(h, a, 2)
		p.t.Log(strings.TrimSpace(ended.succeeds()))
		// Whether a link went down depends on what the others have looked at in the meantime.
		map[string]*place{"own": b, "all": a}[what].engine.says("somebody has overwritten the part of this node")
		for _, e := range []*program{a.engine, b.engine, h.engine} {
			require.NotContains(p.t, e.said.String(), "panic")
			for _, line := range regexp.MustCompile(`(?m)^.*level=ERROR.*$`).FindAllString(e.said.String(), -1) {
				require.Contains(p.t, line, "a link is given up: its ring holds what no packet can be")
			}
		}
		// The link comes back by itself, and these two go on, unless what was on the way between them has
		// become garbage. Without node 1's engine, node 0 gives up.
		b.engine.kill()
		said := ask.fails()
		require.Regexp(p.t, `poster: error: .*(transport retry counter exceeded|and 0x.. was sent|no answer, but)`, said)
		p.t.Log("node 0 asked node 1:", strings.TrimSpace(said[strings.Index(said, "poster:"):]))
		answer.kill()
		b.startEngine()
		b.engine.says("(node seen|link up).* node=0")
		b.engine.says("(node seen|link up).* node=2")
		exchange(a, b, 1)
		exchange(h, b, 1)
	}
	for _, line := range regexp.MustCompile(`(?m)^.*(link down|garbage).*$`).FindAllString(a.engine.said.String(), -1) {
		p.t.Log("node 0:", line)
	}
	h.engine.kill()
}

// death ends node 1's machine in the middle of traffic, as a cut of its power does, and starts it again.
func death(p *pair) {
	a, b := p.nodes[0], p.nodes[1]
	ask, _ := connect(a, b, "--rounds", "0", "--timeout", aboutToDie)
	ask.says("round 2")
	before := strings.Count(a.engine.said.String(), "link down")
	b.machine.Close()
	said := ask.fails()
	require.Contains(p.t, said, "transport retry counter exceeded")
	a.engine.says(`(?s)(link down.*){` + string(rune('0'+before)) + `}.*link down.* node=1 why="node 1 gives no sign of life`)
	p.t.Log(strings.TrimSpace(said[strings.Index(said, "poster:"):]))

	p.boots(1)
	b = p.nodes[1]
	b.startEngine()
	b.engine.says("(node seen|link up).* node=0")
	exchange(a, b, 1)
	exchange(b, a, 1)
}
