//go:build linux && (amd64 || arm64)

package links

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/fabric"
	"github.com/nicless/nicless/internal/board"
)

// An announcing device has one announcement, and a narrow link has room for it every other time.
type (
	announcing struct{ Device }
	narrow     struct {
		fabric.Link
		told int
	}
)

func (announcing) Announced() []board.Entry { return []board.Entry{{Client: 1, Value: "x"}} }

func (n *narrow) Name() string { return "narrow" }

func (n *narrow) Announce([]board.Entry) (int, error) {
	n.told++
	return n.told & 1, nil
}

// Clients that announce and withdraw too much all the time cause a limited number of lines of log.
func TestBoardLogHasABudget(t *testing.T) {
	var out strings.Builder
	table := newTable(announcing{}, Options{}, slog.New(slog.NewTextHandler(&out, nil)))
	left := make([]int, 1)
	link := &narrow{}
	for range 4 * fabric.LinesPerMinute {
		table.sendAnnouncements([]announcer{link}, left)
	}
	require.LessOrEqual(t, strings.Count(out.String(), "\n"), fabric.LinesPerMinute)
	require.Contains(t, out.String(), "no room")
}
