//go:build linux && (amd64 || arm64)

package nicless_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/sanitize"
)

// A program deregisters memory and writes to it again. Without the field Report, the sanitizer prints both
// accesses to standard error.
func ExampleContext_Sanitize() {
	c, _ := nicless.Open(nicless.Config{})
	_, _ = c.Sanitize(nicless.SanitizerConfig{Report: func(r *sanitize.Report) {
		post := r.Accesses[0]
		_, function, _ := strings.Cut(post.Stack[0], " ") // example_sanitize_test.go:40 github.com/…
		fmt.Println(r.Code, post.Opcode, "posted in", function[strings.LastIndex(function, "/")+1:])
	}})

	pd, _ := c.AllocPD()
	mr, _ := pd.RegisterMemory(4096, nicless.FullAccess)
	target, _ := mr.Register(0, 64, nicless.FullAccess) // another key for some of it
	cq, _ := c.CreateCQ(nicless.CQConfig{})
	a, _ := pd.CreateQP(nicless.QPConfig{SendCQ: cq})
	b, _ := pd.CreateQP(nicless.QPConfig{SendCQ: cq})
	_ = nicless.Pair(a, b, nicless.Connection{})
	put := &nicless.SendWR{Op: nicless.Write, Flags: nicless.Signaled, SGE: []nicless.SGE{mr.SGE(1024, 64)},
		RemoteAddr: target.Addr(), RKey: target.RKey()}
	for range 2 {
		_ = a.PostSend(put)
		_, _ = cq.Wait(context.Background(), make([]nicless.Completion, 1))
		_ = target.Close() // too early for the second one
	}
	_ = c.Close() // makes the last reports
	// Output: key-gone RDMA_WRITE posted in nicless_test.ExampleContext_Sanitize
}
