package nicless_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/nicless/nicless"
	"github.com/stretchr/testify/require"
)

// One RDMA WRITE, with an engine inside the program. Errors are left out.
func Example() {
	ctx, _ := nicless.Open(nicless.Config{}) // starts an engine in this process
	defer ctx.Close()
	pd, _ := ctx.AllocPD()
	mr, _ := pd.RegisterMemory(4096, nicless.FullAccess)
	cq, _ := ctx.CreateCQ(nicless.CQConfig{})
	a, _ := pd.CreateQP(nicless.QPConfig{SendCQ: cq})
	b, _ := pd.CreateQP(nicless.QPConfig{SendCQ: cq})
	_ = nicless.Pair(a, b, nicless.Connection{})
	copy(mr.Bytes(), "hello")
	_ = a.PostSend(&nicless.SendWR{ID: 1, Op: nicless.Write, Flags: nicless.Signaled,
		SGE: []nicless.SGE{mr.SGE(0, 5)}, RemoteAddr: mr.Addr() + 2048, RKey: mr.RKey()})
	done := make([]nicless.Completion, 1)
	_, _ = cq.Wait(context.Background(), done)
	fmt.Printf("%v %v: %q\n", done[0].Opcode, done[0].Status, mr.Bytes()[2048:2053])
	// Output: RDMA_WRITE SUCCESS: "hello"
}

// The README shows the program above and its output, letter by letter.
func TestReadmeShowsTheExample(t *testing.T) {
	source, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	_, body, _ := strings.Cut(string(source), "func Example() {\n")
	body, output, _ := strings.Cut(body, "\t// Output: ")
	output, _, _ = strings.Cut(output, "\n")
	require.Contains(t, string(readme), body)
	require.Contains(t, string(readme), output)
}
