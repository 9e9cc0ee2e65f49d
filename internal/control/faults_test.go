package control_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/internal/control"
)

// Rules of faults can refuse all requests but those that set and query rules.
func TestRulesRefuseRequests(t *testing.T) {
	var want []string
	for op := control.OpHello; !strings.HasPrefix(op.String(), "operation "); op++ {
		if op != control.OpSetFaults && op != control.OpQueryFault {
			want = append(want, op.String())
		}
	}
	require.ElementsMatch(t, want, fault.Calls())
}
