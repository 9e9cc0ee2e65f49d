//go:build linux && (amd64 || arm64)

package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

// AllConfig says which rows of the table are measured, and how. Both cores must be set, and
// differ.
type AllConfig struct {
	// Rows are those whose names match. Nil means all.
	Rows *regexp.Regexp

	// Sweeps selects the rows of the sweeps, which are plotted, in place of those of the
	// table.
	Sweeps bool

	// Runs is how many samples are taken of each row, 1 to 1000. Zero means 5.
	Runs int

	// ClientCPU and EngineCPU are the cores of the two parties.
	ClientCPU, EngineCPU int

	// Progress, unless nil, is called before each run.
	Progress func(row string, run, runs int)

	counts *counts // nil: fullCounts; smaller in tests
}

// RowNames returns the names of all rows, in their order; of the sweeps if
// Sweeps is set.
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

// Complete replaces zero fields by their defaults, and returns an error that names the value
// if something cannot be measured. All calls it too.
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

func (c *AllConfig) wants(name string) bool { return c.Rows == nil || c.Rows.MatchString(name) }

// All measures the rows of the table. Engines that serve several clients, or
// that sleep, are processes: this program, run with the arguments "engine
// --socket PATH --cpu N" and, where they are not to sleep, "--spin".
func All(ctx context.Context, c AllConfig) (*Table, error) {
	if err := c.Complete(); err != nil {
		return nil, err
	}
	machine, err := ThisMachine()
	if err != nil {
		return nil, err
	}
	s := &suite{AllConfig: c, ctx: ctx, began: time.Now(), table: &Table{Machine: machine, ClientCPU: c.ClientCPU, EngineCPU: c.EngineCPU}}
	if s.counts == nil {
		s.counts = &fullCounts
	}
	if s.dir, err = os.MkdirTemp("", "nicless-bench-"); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	done := make(chan error)
	go func() { // a thread that ends with this goroutine
		err := pinForGood(c.ClientCPU)
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

// A suite is the unfinished table, and what has to be closed after the last row.
type suite struct {
	AllConfig
	ctx     context.Context
	table   *Table
	dir     string // of sockets
	sockets int
	crowd   *crowd // nil: not made yet
	closers []func() error
	began   time.Time
}

// patienceForQuiet is for how long disturbed runs are repeated, over all rows.
const patienceForQuiet = 30 * time.Second

// counts are the amounts of work in the rows.
type counts struct {
	latency    int // operations in a run
	rate       int
	copied     int // bytes in a run of bandwidth
	clients    int // of the crowd
	queues     int // of all clients of the crowd
	active     int // queue pairs that are used in turn
	large      int // bytes of the long write
	registered int // bytes of a new MR
	pauses     int // pauses in a run, each with one operation after it
	connects   int // clients in a run, and queue pairs
	retakes    int // most repetitions of a disturbed run
}

var fullCounts = counts{
	latency: 30_000, rate: 400_000, copied: 512 << 20, clients: 100, queues: 10_000, active: 1000,
	large: 1 << 30, registered: 1 << 30, pauses: 10, connects: 20, retakes: retakes,
}

// A group is rows that are measured together: take returns a sample of each.
type group struct {
	rows []spec
	once bool // a second run would give nothing new
	open func(s *suite) (take func() ([]pairOf, error), close func() error, err error)
}

// measure takes the samples of each group.
func (s *suite) measure() error {
	for _, g := range s.groups() {
		if err := s.group(g); err != nil {
			return fmt.Errorf("%s: %w", g.rows[0].name, err)
		}
	}
	return nil
}

func (s *suite) group(g group) (err error) {
	wanted := false
	for _, r := range g.rows {
		wanted = wanted || s.wants(r.name)
	}
	if !wanted {
		return nil
	}
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
	samples := make([][]pairOf, len(g.rows))
	retaken := 0
	for run := range runs {
		s.progress(g, run+1, runs)
		tries := 1 + s.counts.retakes
		if time.Since(s.began) > patienceForQuiet {
			tries = 1
		}
		one, again, err := undisturbed(s.ctx, tries, take, mostLost)
		if err != nil {
			return err
		}
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

func mostLost(pairs []pairOf) (most float64) {
	for _, p := range pairs {
		most = max(most, p.lost())
	}
	return most
}

// later has f called after the last row.
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
