package verbs

import (
	"testing"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Calls of a program fail with the errno of the rule, for the device that it names, and leave nothing behind.
func TestRulesRefuseCalls(t *testing.T) {
	r := newRig(t)
	p := r.program()
	cq := p.ok(p.createCQ(15, 0)).value[0]
	owner, err := r.s.engine.AttachLocal("owner", nil)
	require.NoError(t, err)
	defer owner.Close()
	const rules = `{"rules": [
		{"match": {"device": "nicless0", "every": 2}, "refuse": {"call": "create_qp", "errno": "ENOMEM"}},
		{"match": {"device": "nicless1"}, "refuse": {"call": "create_qp", "errno": "EPERM"}},
		{"match": {"device": "nicless0"}, "refuse": {"call": "alloc_pd", "errno": "EAGAIN"}}]}`
	_, _, err = owner.Call(control.OpSetFaults, body(control.OpSetFaults,
		&control.Faults{Total: uint32(len(rules)), Text: rules}))
	require.NoError(t, err)

	first := p.ok(p.createQP(abi.QPTRC, cq)).value[abi.AttrCreateQPHandle]
	before, objects := p.context().cost, len(p.context().objects)
	require.Equal(t, unix.ENOMEM, p.createQP(abi.QPTRC, cq).errno)
	require.Equal(t, unix.EAGAIN, p.write(p.ctx, abi.CmdAllocPD, make([]byte, 8), abi.AllocPDRespSize).errno)
	require.Equal(t, before, p.context().cost)
	require.Len(t, p.context().objects, objects)
	p.ok(p.createQP(abi.QPTRC, cq))
	p.ok(p.destroyQP(first))
}
