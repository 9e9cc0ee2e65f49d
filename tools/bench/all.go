//go:build linux && (amd64 || arm64)

package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// AllConfig says which rows of the table are measured, and how. ClientCPU and EngineCPU must
// be set, and must differ.
type AllConfig struct {
	// Rows selects the rows whose names match. Nil means all rows.
	Rows *regexp.Regexp

	// Sweeps selects the rows of the sweeps, which are for plots, in place of the rows of
	// the table.
	Sweeps bool

	// Runs is how many samples are taken of each row, 1 to 1000. Zero means 5.
	Runs int

	// ClientCPU and EngineCPU are the cores of the two parties.
	ClientCPU, EngineCPU int

	// Progress, unless nil, is called before each run.
	Progress func(row string, run, runs int)

	counts *counts // nil: fullCounts; tests use smaller counts
}

// RowNames returns the names of all rows of the table, in their order. If Sweeps is set, it
// returns the names of the rows of the sweeps.
func (c *AllConfig) RowNames() (names []string) {
	for _, g := range c.groups() {
		for _, r := range g.rows {
			names = append(names, r.name)
		}
	}
	return names
}

func (c *AllConfig) groups() []group {
	if c.Sweeps {
		return sweeps
	}
	return groups
}

// Complete replaces zero fields by their defaults. If a value cannot be measured, it returns
// an error that names the value. All calls Complete too.
func (c *AllConfig) Complete() error {
	if c.Runs == 0 {
		c.Runs = 5
	}
	if c.Runs < 1 || c.Runs > maxRuns {
		return fmt.Errorf("bench: runs %d; 1 to %d are possible", c.Runs, maxRuns)
	}
	if c.ClientCPU < 0 || c.EngineCPU < 0 || c.ClientCPU == c.EngineCPU {
		return fmt.Errorf("bench: cores %d and %d; the table takes two, one for each side", c.ClientCPU, c.EngineCPU)
	}
	for _, name := range c.RowNames() {
		if c.wants(name) {
			return nil
		}
	}
	return fmt.Errorf("bench: no row is called %q", c.Rows)
}

// wants reports whether the row of that name is to be measured.
func (c *AllConfig) wants(name string) bool { return c.Rows == nil || c.Rows.MatchString(name) }

// wanted returns the groups that have a row of interest.
func (c *AllConfig) wanted() []group {
	return slices.DeleteFunc(slices.Clone(c.groups()), func(g group) bool {
		return !slices.ContainsFunc(g.rows, func(r spec) bool { return c.wants(r.name) })
	})
}

// All measures the rows of the table. An engine that serves several clients, or that may
// sleep, is a separate process. The process runs this program with the arguments "engine
// --socket PATH --cpu N" and, if the engine must not sleep, "--spin".
func All(ctx context.Context, c AllConfig) (*Table, error) {
	if err := c.Complete(); err != nil {
		return nil, err
	}
	if err := checkPolicy(c.wanted()); err != nil {
		return nil, err
	}
	machine, err := ThisMachine()
	if err != nil {
		return nil, err
	}
	s := &suite{AllConfig: c, ctx: ctx,
		table: &Table{Machine: machine, ClientCPU: c.ClientCPU, EngineCPU: c.EngineCPU}}
	if s.counts == nil {
		s.counts = &fullCounts
	}
	s.dir, err = os.MkdirTemp("", "nicless-bench-")
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	done := make(chan error)
	go func() { // in a goroutine, so that the pinned thread ends with it
		err := pinForGood(c.ClientCPU)
		if err == nil {
			s.watch, err = watch(c.ClientCPU, c.EngineCPU)
		}
		if err == nil {
			err = s.measure()
		}
		done <- errors.Join(err, s.close(), os.RemoveAll(s.dir))
	}()
	if err := <-done; err != nil {
		return nil, err
	}
	return s.table, nil
}

// A suite is the unfinished table, with everything that has to be closed after the last row.
type suite struct {
	AllConfig
	ctx     context.Context
	table   *Table
	dir     string // directory of the sockets
	sockets int
	crowd   *crowd // nil: not made yet
	closers []func() error
	watch   *siblings

	// patience is how much time may still be used for repeating disturbed runs.
	patience time.Duration
}

// patienceForQuiet is about the most time, over all rows, for repeating disturbed runs. Each
// group of rows gets an equal part of it, and what the groups before it have left. So bench all
// takes less than twice as long on a machine that is always disturbed.
const patienceForQuiet = 30 * time.Second

// counts are the amounts of work in the rows.
type counts struct {
	latency    int // operations in a run
	rate       int
	copied     int // bytes in a run of bandwidth
	clients    int // clients of the crowd
	queues     int // queue pairs of all clients of the crowd
	active     int // queue pairs of the rotation
	holders    int // clients that hold CQs
	held       int // CQs that they hold together
	ticks      int // WRITEs in a run beside them
	large      int // bytes of the long write
	registered int // bytes of a new MR
	pauses     int // pauses in a run; one operation follows each pause
	connects   int // clients that connect in a run, and queue pairs that are connected in a run
	retakes    int // most repetitions of a disturbed run
}

var fullCounts = counts{
	latency: 30_000, rate: 400_000, copied: 512 << 20, clients: 100, queues: 10_000, active: 1000,
	holders: 20, held: 320_000, ticks: 2000,
	large: 1 << 30, registered: 1 << 30, pauses: 10, connects: 20, retakes: retakes,
}

// A group is rows that are measured together. Its function take returns a sample of each row.
type group struct {
	rows    []spec
	once    bool // take only one sample of each row, because further samples would be the same
	process bool // an engine process of its own is needed
	busy    bool // both cores are busy in a run, so that busy siblings disturb it
	open    func(s *suite) (take func() ([]pairOf, error), close func() error, err error)
}

// measure takes the samples of each group that has a row of interest.
func (s *suite) measure() error {
	groups := s.wanted()
	for _, g := range groups {
		s.patience += patienceForQuiet / time.Duration(len(groups))
		if err := s.group(g); err != nil {
			return fmt.Errorf("%s: %w", g.rows[0].name, err)
		}
	}
	var slowdowns []float64
	for i := range s.table.Rows {
		if v := s.table.Rows[i].Slowdowns; v != nil {
			slowdowns = append(slowdowns, v.Samples...)
		}
	}
	s.table.Siblings = s.watch.state(slowdowns)
	return nil
}

func (s *suite) group(g group) (err error) {
	runs := s.Runs
	if g.once {
		runs = 1
	}
	s.progress(g, 0, runs)
	take, end, err := g.open(s)
	if err != nil {
		return err
	}
	if end != nil {
		defer func() { err = errors.Join(err, end()) }()
	}
	if g.busy {
		take = s.watch.around(take)
	}
	samples := make([][]pairOf, len(g.rows))
	retaken := 0
	for run := range runs {
		s.progress(g, run+1, runs)
		tries := 1 + s.counts.retakes
		if s.patience <= 0 {
			tries = 1
		}
		begin := time.Now()
		one, again, err := undisturbed(s.ctx, tries, take, mostLost)
		if err != nil {
			return err
		}
		s.patience -= time.Since(begin) * time.Duration(again) / time.Duration(1+again)
		retaken += again
		for i, p := range one {
			samples[i] = append(samples[i], p)
		}
	}
	for i, r := range g.rows {
		if s.wants(r.name) {
			s.table.Rows = append(s.table.Rows, newRow(r, samples[i], retaken))
		}
	}
	return nil
}

func (s *suite) progress(g group, run, runs int) {
	if s.Progress != nil {
		s.Progress(g.rows[0].name, run, runs)
	}
}

// later makes the suite call f after the last row.
func (s *suite) later(f func() error) { s.closers = append(s.closers, f) }

func (s *suite) close() (err error) {
	for i := len(s.closers) - 1; i >= 0; i-- {
		err = errors.Join(err, s.closers[i]())
	}
	return err
}

func (s *suite) socket() string {
	s.sockets++
	return filepath.Join(s.dir, strconv.Itoa(s.sockets))
}
