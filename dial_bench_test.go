package nicless

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkDialName is the time of a connection by a name, both queue pairs made and closed included.
func BenchmarkDialName(b *testing.B) {
	for _, kind := range []string{"engine", "pool"} {
		b.Run(kind, func(b *testing.B) {
			link := []string{"none", "none"}
			if kind == "pool" {
				p := fmt.Sprintf("pool:%s,dead=1m,size=8M,node=", filepath.Join(b.TempDir(), "pool"))
				link = []string{p + "0", p + "1"}
			}
			path := filepath.Join(b.TempDir(), "s")
			ctx, cancel := context.WithCancel(b.Context())
			ready, ended := make(chan struct{}), make(chan error, 1)
			go func() { ended <- Serve(ctx, path, 0o600, Config{Links: link[:1]}, func() { close(ready) }) }()
			<-ready
			defer func() { cancel(); <-ended }()
			end := func(c *Context, err error) (*Context, *PD, *CQ) {
				require.NoError(b, err)
				pd, err := c.AllocPD()
				require.NoError(b, err)
				cq, err := c.CreateCQ(CQConfig{})
				require.NoError(b, err)
				return c, pd, cq
			}
			at, pd, cq := end(Dial(path))
			var from *Context
			var fromPD *PD
			var fromCQ *CQ
			if kind == "pool" {
				from, fromPD, fromCQ = end(Open(Config{Links: link[1:]}))
			} else {
				from, fromPD, fromCQ = end(Dial(path))
			}
			defer at.Close()
			defer from.Close()
			l, err := at.ListenName("db", ListenConfig{})
			require.NoError(b, err)
			require.NoError(b, from.WaitName(ctx, "db"))
			accepted := make(chan error, 1)
			for b.Loop() {
				q, err := pd.CreateQP(QPConfig{SendCQ: cq})
				require.NoError(b, err)
				go func() {
					call, err := l.Accept(ctx)
					if err == nil {
						err = call.Accept(ctx, q, Connection{})
					}
					accepted <- err
				}()
				p, err := fromPD.CreateQP(QPConfig{SendCQ: fromCQ})
				require.NoError(b, err)
				_, err = from.DialName(ctx, "db", p, Connection{})
				require.NoError(b, err)
				require.NoError(b, <-accepted)
				require.NoError(b, q.Close())
				require.NoError(b, p.Close())
			}
		})
	}
}
