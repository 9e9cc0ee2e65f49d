package known_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/field/known"
	"github.com/nicless/nicless/wqe"
)

// Causes that a failure cannot have are left out, and one with which the vendor byte was seen comes first.
func TestCauses(t *testing.T) {
	op := func(o wqe.Opcode) *wqe.Opcode { return &o }
	vendor := func(b uint8) *uint8 { return &b }
	for name, c := range map[string]struct {
		failure known.Failure
		first   string // code
		without string
	}{
		"a message too long, at its receiver":  {known.Failure{Syndrome: cqe.LocalLength, Responder: true}, "receive-short", "message-size"},
		"a message too long, at its sender":    {known.Failure{Syndrome: cqe.LocalLength, Requester: true}, "message-size", "receive-short"},
		"headers that are not inline":          {known.Failure{Syndrome: cqe.LocalLength, Vendor: vendor(0x68), Requester: true, Opcode: op(wqe.OpSend)}, "", "receive-short"},
		"a SEND that is refused":               {known.Failure{Syndrome: cqe.RemoteInvalidRequest, Requester: true, Opcode: op(wqe.OpSend)}, "receive-short", "atomic-alignment"},
		"a READ that is refused":               {known.Failure{Syndrome: cqe.RemoteInvalidRequest, Requester: true, Opcode: op(wqe.OpRDMARead)}, "responder-refuses", "receive-short"},
		"an atomic that is refused":            {known.Failure{Syndrome: cqe.RemoteInvalidRequest, Requester: true, Opcode: op(wqe.OpAtomicFA)}, "responder-refuses", "receive-short"},
		"a UMR that is malformed":              {known.Failure{Syndrome: cqe.MWBind, Vendor: vendor(0x78), Requester: true, Opcode: op(wqe.OpUMR)}, "umr-list", "key-range"},
		"a UMR with a wrong list":              {known.Failure{Syndrome: cqe.LocalQPOp, Vendor: vendor(0x68), Requester: true, Opcode: op(wqe.OpUMR)}, "umr-list", "inline-read"},
		"a receive that is malformed":          {known.Failure{Syndrome: cqe.LocalQPOp, Vendor: vendor(0xd6), Responder: true}, "receive-unwritten", "ds-small"},
		"the IOMMU":                            {known.Failure{Syndrome: cqe.LocalProtection, Vendor: vendor(0x56)}, "", "nothing"},
		"a WRITE does not write local memory":  {known.Failure{Syndrome: cqe.LocalProtection, Requester: true, Opcode: op(wqe.OpRDMAWrite)}, "key-unknown", "key-access"},
		"a READ has no receive":                {known.Failure{Syndrome: cqe.RemoteOperation, Requester: true, Opcode: op(wqe.OpRDMARead)}, "process-memory", "receive-unwritten"},
		"an opcode that does not exist":        {known.Failure{Syndrome: cqe.LocalQPOp, Requester: true, Opcode: op(0x77)}, "ds-small", "receive-unwritten"},
		"a WAIT":                               {known.Failure{Syndrome: cqe.LocalQPOp, Requester: true, Opcode: op(wqe.OpWait)}, "ds-small", "umr-list"},
		"a bind by an operation that has none": {known.Failure{Syndrome: cqe.MWBind, Requester: true, Opcode: op(wqe.OpSend)}, "bind", "nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			list := known.Causes(c.failure)
			require.NotEmpty(t, list)
			assert.Equal(t, c.first, list[0].Code)
			for _, cause := range list {
				assert.NotEqual(t, c.without, cause.Code)
			}
		})
	}
	for _, s := range known.Syndromes() {
		require.Len(t, known.Causes(known.Failure{Syndrome: s.Value}), len(s.Causes), "%v: nothing is known, so all are possible", s.Value)
	}
	require.Contains(t, known.Causes(known.Failure{Syndrome: cqe.LocalProtection, Vendor: vendor(0x56)})[0].Text, "IOMMU")
}
