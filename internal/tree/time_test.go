package tree

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// waitsByTime is code of tests that depends on how fast the machine is: it sleeps, ends a wait when
// some time is over, measures how long something took, or gives a process that repeats a test a limit of its
// own. Tests wait by package internal/await, on a device clock that they hold, or in testing/synctest.
var waitsByTime = regexp.MustCompile(`time\.(After|AfterFunc|Sleep|NewTimer|NewTicker|Tick)\(|(require|assert)\.(Eventually|Never)|` +
	`context\.With(Timeout|Deadline)\(|Deadline\(time\.Now|time\.(Since|Until)\(|time\.Now\(\)\.(Before|After|Sub)\(|` +
	`-test\.timeout=[1-9]`)

// benchmarks are files that measure time, because that is what they are for.
var benchmarks = regexp.MustCompile(`bench(_[a-z0-9]+)*_test\.go$`)

// logs are lines that only print how long something took.
var logs = regexp.MustCompile(`\.Logf\(`)

// mayWaitByTime are the exceptions, with the number of their lines. They do not fail on a slow machine.
var mayWaitByTime = map[string]struct {
	lines  int
	reason string
}{
	"call_test.go":                   {3, "calls whose own time is over"},
	"internal/apitest/event_test.go": {2, "a wait whose own time is over, and pauses in which a socket is emptied"},
	"internal/apitest/queue_test.go": {1, "a wait whose own time is over"},
	"server/serve_test.go":           {1, "a full socket is known by a write that does not end"},
	"server/log_test.go":             {1, "the limit is one of lines in each window of time: a slow machine allows more"},
	"stopped_test.go":                {1, "a full socket is known by a write that does not end"},
	"internal/apitest/wait_test.go":  {2, "a wait whose own time is over, and pauses of different length"},

	"tools/bench/anatomy_test.go":          {2, "a benchmark"},
	"tools/calibrate/calibrate_test.go":    {1, "a measurement whose own time is over"},
	"internal/clock/clock_test.go":         {2, "the clock is compared with another"},
	"internal/clock/counter_amd64_test.go": {1, "the clock is compared with another"},
	"internal/shm/word_test.go":            {1, "a search ends early on a busy machine"},

	"tools/torture/plant_test.go":      {1, "the fault that is planted is a time"},
	"engine/idle_test.go":              {1, "pauses of different length"},
	"fabric/ucx/held_test.go":          {1, "the fault that is planted is a time"},
	"internal/modules/modules_test.go": {2, "the limit that go test gives is handed on"},
	"internal/await/await_test.go":     {1, "the package itself"},
	"tools/lab/main_test.go":           {1, "a line of the log, if something took long"},
	"fabric/links/summary_test.go":     {1, "the clock is that of a synctest bubble"},
	"netdev/enemy_test.go":             {3, "the clock is that of a synctest bubble"},
	"netdev/later_test.go":             {4, "the clock is that of a synctest bubble"},
	"niclesstest/bubble_test.go":       {1, "the clock is that of a synctest bubble"},
	"niclesstest/fault_test.go":        {4, "the clock is that of a synctest bubble"},
	"niclesstest/example_test.go":      {1, "a program that runs in a synctest bubble"},
	"niclesstest/clock_test.go":        {11, "the clock is that of a synctest bubble"},
	"netdev/programs/tcp_test.go":      {1, "a program that prints its rate"},
	"netdev/programs/udp_test.go":      {3, "programs that count what is lost, and their rate"},
	"verbs/serve_test.go":              {1, "the limit is one of lines in each window of time: a slow machine allows more"},
}

// No test fails because the machine was slow.
func TestNobodyWaitsByTime(t *testing.T) {
	atRoot(t)
	found := map[string]int{}
	require.NoError(t, filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(file, "_test.go") || file == "internal/tree/time_test.go" || benchmarks.MatchString(file):
			return nil
		}
		file = filepath.ToSlash(file)
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		n := 0
		for line := range strings.Lines(string(text)) {
			if !waitsByTime.MatchString(line) || logs.MatchString(line) {
				continue
			}
			found[file]++
			n++
			if n > mayWaitByTime[file].lines {
				t.Errorf("%s: %s: wait by package internal/await, or name the exception and its reason", file, strings.TrimSpace(line))
			}
		}
		return nil
	}))
	for file, may := range mayWaitByTime {
		require.NotEmpty(t, may.reason, file)
		require.Equal(t, may.lines, found[file], "%s: the exception is larger than needed", file)
	}
}
