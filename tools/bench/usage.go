//go:build linux && (amd64 || arm64)

package bench

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/nicless/nicless/tools/internal/cores"
)

// A usage is memory of a process, in bytes.
type usage struct{ resident, anonymous int }

// memory reads how much memory the engine has; zero if the kernel does not report it.
func (p *process) memory() (u usage) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid()))
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		n, _ := strconv.Atoi(f[1])
		switch f[0] {
		case "VmRSS:":
			u.resident = n << 10
		case "RssAnon:":
			u.anonymous = n << 10
		}
	}
	return u
}

// ran returns how long the engine's threads have run.
func (p *process) ran() (sum time.Duration) {
	m := make(map[string]cores.Times)
	addThreads(m, strconv.Itoa(p.pid()))
	for _, t := range m {
		sum += time.Duration(t.Ran)
	}
	return sum
}
