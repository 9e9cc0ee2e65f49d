package lab

import (
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"
)

// onlyMemory lets programs in both machines, which have no engine, post to an engine on the host: all
// queues and all memory are in what the machines share with it. A third program writes garbage into
// its own queues meanwhile. The host takes the place of a machine too.
func onlyMemory(p *pair) {
	h := host(p.t, "")
	engine := h.start("poster", "engine", "-file", p.pool, "-offset", fmt.Sprint(p.offset()))
	engine.says("serves nodes 1 to 4")
	in := func(at *place, node int, flags string) *program {
		line := fmt.Sprintf("exec poster post -file $LAB_POOL -length $LAB_SIZE -node %d %s", node, flags)
		return at.start("sh", "-c", line)
	}
	a, b := in(p.nodes[0], 1, "-n 200 -rounds 5"), in(p.nodes[1], 2, "")
	bad := in(p.nodes[1], 4, "-garbage -n 20")
	content := func(node int, said string) {
		require.Regexp(p.t, fmt.Sprintf(`^node %d: 200 round trips, median \S+; 5 writes and 5 reads of 65536 bytes, every byte checked; 200 fetch-and-adds, counter 209715600\n$`, node), said)
		p.t.Log(strings.TrimSpace(said))
	}
	content(1, a.succeeds())
	content(2, b.succeeds())
	require.Contains(p.t, bad.succeeds(), "node 4: opcode 0x77 was refused (LOC_QP_OP_ERR), then 20 times random bytes in all its queues")

	a = h.start("poster", "post", "-file", p.pool, "-offset", fmt.Sprint(p.offset()), "-node", "1", "-n", "200", "-rounds", "5")
	b = in(p.nodes[1], 2, "")
	content(1, a.succeeds())
	content(2, b.succeeds())
	engine.kill()
	require.NotRegexp(p.t, `panic|level=ERROR`, engine.said.String())
}
