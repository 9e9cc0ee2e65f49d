package nicless

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/require"
)

// dialClient dials the name db of a client whose engine and box are in line, and returns how that ended.
func dialClient(c *Context, line string) string {
	var to Announcement
	if _, err := fmt.Sscanf(line, "%x %x", &to.Device, &to.Box); err != nil {
		return err.Error()
	}
	pd, err := c.AllocPD()
	if err != nil {
		return err.Error()
	}
	cq, err := c.CreateCQ(CQConfig{})
	if err != nil {
		return err.Error()
	}
	q, err := pd.CreateQP(QPConfig{SendCQ: cq})
	if err != nil {
		return err.Error()
	}
	_, err = c.DialClient(context.Background(), &to, "db", q, Connection{})
	return fmt.Sprint(err)
}

// The number of a client's box is of no use to programs of other users if its names are for one user: on the
// client's engine, and on one that a pool leads to.
func TestDialsOfOtherUsers(t *testing.T) {
	here, there := forUsers(t)
	c := dialed(t, here)
	var asks []func(string) string // of the client's user, then of another, on both engines
	for _, uid := range []int{0, 54322} {
		asks = append(asks, user(t, here, uid, nil), user(t, there, uid, nil))
	}
	const got = "the listener has got it"
	for _, toAll := range []bool{false, true, false} {
		l, err := c.ListenName("db", ListenConfig{ToAll: toAll})
		require.NoError(t, err)
		refused := make(chan struct{})
		go func() {
			defer close(refused)
			for {
				call, err := l.Accept(await.Context(t))
				if err != nil {
					return
				}
				_ = call.Reject(got)
			}
		}()
		line := fmt.Sprintf("d%x %x", c.Device(), c.names.box)
		until(t, "the pool is up", func() bool { return strings.Contains(asks[1](line), got) })
		for i, ask := range asks {
			said := ask(line)
			if i < 2 || toAll {
				require.Contains(t, said, got)
			} else {
				require.Contains(t, said, `"db" is not a name of that client for programs of this user`)
			}
		}
		require.NoError(t, l.Close())
		<-refused
	}
}
