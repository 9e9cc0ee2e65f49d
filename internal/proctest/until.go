package proctest

import (
	"fmt"
	"testing"
	"time"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/schedstat"
)

// A Job is a program for which a test waits.
type Job struct {
	Name   string // command line of the job
	PID    int    // 0: it does not run on this machine
	Output *Output
}

// Until waits until done returns true, with the patience of package await. Patience begins anew when a
// job prints something, or computes. If patience is over, the test fails, with all that the jobs have
// printed and the processor time that they have had.
func Until(t testing.TB, what string, done func() bool, jobs ...Job) {
	t.Helper()
	came := false
	defer func() {
		t.Helper()
		if !came {
			for _, j := range jobs {
				t.Log(j)
			}
		}
	}()
	var states []func() any
	for _, j := range jobs {
		states = append(states, j.progress())
	}
	await.Until(t, what, done, states...)
	came = true
}

// A program can compute for minutes before it prints anything: rdma-core's own tests have one that takes a
// minute on a busy machine. So each workStep of processor time counts as progress, up to workLimit. A
// program that spins and does nothing is given up after that.
const (
	workStep  = 10 * time.Second
	workLimit = 2 * time.Minute
)

// progress reports how far a job is.
func (j Job) progress() func() any {
	quiet := 0
	var since time.Duration
	return func() any {
		ran := times(j.PID).Ran
		if n := j.Output.Len(); n != quiet {
			quiet, since = n, ran
		}
		return fmt.Sprintf("%d bytes printed, and %v computed since: %s", quiet, min(ran-since, workLimit).Truncate(workStep), j.Name)
	}
}

// String returns all that is known of a job.
func (j Job) String() string {
	said := j.Output.String()
	if j.PID == 0 {
		return fmt.Sprintf("%s said:\n%s", j.Name, said)
	}
	of := times(j.PID)
	return fmt.Sprintf("%s (process %d and its descendants: %v on a core, %v ready to run and without one) said:\n%s",
		j.Name, j.PID, of.Ran.Round(time.Millisecond), of.Waited.Round(time.Millisecond), said)
}

// times returns what all threads of a process and of its descendants have had together.
func times(pid int) (sum schedstat.Times) {
	if pid == 0 {
		return sum
	}
	for _, p := range schedstat.Family(pid) {
		if threads, err := schedstat.Read(p); err == nil {
			of := threads.Sum()
			sum.Ran += of.Ran
			sum.Waited += of.Waited
		}
	}
	return sum
}
