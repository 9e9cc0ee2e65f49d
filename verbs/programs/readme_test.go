package programs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/freeport"
)

// pagesWithSessions are the pages whose commands TestCommandsOfPages runs, and how many of them each has.
var pagesWithSessions = map[string]int{"README.md": 2, "docs/guide/other-hosts.md": 1}

var (
	testedByPages = regexp.MustCompile(`ib_write_bw|ibv_rc_pingpong`)
	consoleInText = regexp.MustCompile("(?ms)^```console\n\\$ (.*?)\n(.*?)^```$")
	// Differences between two runs of a program: addresses and keys, numbers of processes, measurements.
	differs = regexp.MustCompile(`0x[0-9a-f]+|pid \d+|\d+\.\d+`)
)

// TestCommandsOfPages runs the commands of these pages as they stand there. They print the lines that the
// page shows, except for numbers that differ from run to run.
func TestCommandsOfPages(t *testing.T) {
	for page, sessions := range pagesWithSessions {
		text, err := os.ReadFile(filepath.Join(repository, page))
		require.NoError(t, err)
		found := consoleInText.FindAllStringSubmatch(string(text), -1)
		require.Len(t, found, sessions, page)
		for _, session := range found {
			t.Run(filepath.Base(page), func(t *testing.T) {
				t.Parallel()
				runsAsOnPage(t, session[1], session[2])
			})
		}
	}
}

func runsAsOnPage(t *testing.T, command, shown string) {
	need(t, testedByPages.FindString(command))
	port := freeport.TCP(t)
	// Other tests use the default port, and a busy machine needs more than a second to start a server.
	there := testedByPages.ReplaceAllString(command, fmt.Sprintf("$0 -p %d", port))
	there = strings.Replace(there, "sleep 1;", fmt.Sprintf(
		`until grep -q ":%04X 0*:0000 0A" /proc/net/tcp /proc/net/tcp6; do sleep 0.05; done;`, port), 1)
	if strings.HasPrefix(command, "scripts/two-hosts") {
		long(t)
		need(t, "unshare", "nsenter", "ip")
		if said, err := exec.Command("unshare", "--user", "--map-root-user", "--net", "true").CombinedOutput(); err != nil {
			t.Skipf("network namespaces are not possible here: %v %s", err, said)
		}
		client := regexp.MustCompile(`'([^']*)'$`)
		there = client.ReplaceAllString(there, `'until $1; do sleep 0.05; done'`)
	}
	dir, err := os.MkdirTemp("", "nr") // t.TempDir's names are too long for sockets
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	root, err := filepath.Abs(repository)
	require.NoError(t, err)
	require.NoError(t, os.Symlink(filepath.Join(root, "scripts"), filepath.Join(dir, "scripts")))
	require.NoError(t, os.Symlink(filepath.Dir(binary), filepath.Join(dir, "bin")))
	p := startWith(t, nil, func(c *exec.Cmd) {
		c.Dir = dir
		c.Env = append(c.Environ(), "XDG_RUNTIME_DIR="+dir)
	}, "sh", "-c", there)
	_ = p.wait() // the program with the error fails, and the lines say whether it failed as on the page
	said := map[string]bool{}
	for _, line := range lines(p.said.String()) {
		said[sameInAllRuns(line)] = true
	}
	for _, line := range lines(shown) {
		if line != "..." {
			require.True(t, said[sameInAllRuns(line)], "%s\ndoes not say: %s\nbut: %s", there, line, p.said.String())
		}
	}
}

// sameInAllRuns is a line without blanks and numbers that differ between two runs.
func sameInAllRuns(line string) string {
	return strings.Join(strings.Fields(differs.ReplaceAllString(line, "#")), " ")
}
