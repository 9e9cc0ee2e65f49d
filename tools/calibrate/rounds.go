//go:build linux && (amd64 || arm64)

package calibrate

import (
	"context"
	"math"
	"strconv"
	"time"

	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/tools/internal/cores"
)

// A round was disturbed if a thread waited for its core for more than the part tooMuch of it, if a
// row was uneven, or if the first row and the last one, which are alike, differ by more than the
// factor moved: then the state changed between them. This depends on the machine and on the rows
// of one price, not on how well anything predicts anything.
const (
	tooMuch = 0.1
	uneven  = 1.5
	moved   = 1.1
)

// fewest is how many rounds there are at least, however small the budget is.
const fewest = 8

// A round is the timings of all rows, in nanoseconds, by the names of the rows.
type round struct {
	first, second map[string]float64
	disturbed     bool
}

// firstRow and lastRow are the names of the first and the last row of a round, which are both one
// line per direction.
const firstRow, lastRow = "first", "last"

// play plays rounds for the duration budget.
func play(ctx context.Context, p *pair, rows []row, threads [2]int, budget time.Duration) ([]round, error) {
	goal := budget.Seconds() / float64(100*len(rows)) // for a row
	goal = min(max(goal, 50e-6), 1e-3) * float64(clock.Hz())
	for i := range rows {
		rows[i].each = 4
		rows[i].tune(p.play(&rows[i]), goal)
	}
	var list []round
	for begin := time.Now(); len(list) < fewest || time.Since(begin) < budget; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		list = append(list, p.round(rows, threads, goal))
	}
	return list, nil
}

// round plays all rows once.
func (p *pair) round(rows []row, threads [2]int, goal float64) round {
	r := round{first: make(map[string]float64, len(rows)), second: make(map[string]float64)}
	before, start := waits(threads), time.Now()
	ns := 1e9 / float64(clock.Hz())
	for i := range rows {
		t := p.play(&rows[i])
		r.first[rows[i].name] = t.first * ns
		if rows[i].halves != nil {
			r.second[rows[i].name] = t.second * ns
		}
		r.disturbed = r.disturbed || t.spread > uneven
		rows[i].tune(t, goal)
	}
	took := float64(time.Since(start))
	after := waits(threads)
	for i := range threads {
		r.disturbed = r.disturbed || float64(after[i]-before[i]) > tooMuch*took
	}
	a, b := r.first[firstRow], r.first[lastRow]
	r.disturbed = r.disturbed || math.Max(a, b) > moved*math.Min(a, b)
	return r
}

// tune sets how many exchanges a batch has from now on, after the row has taken t, so that the row
// takes goal cycles.
func (r *row) tune(t timing, goal float64) {
	n := goal / (batches + warm) / max(t.first+t.second, 0.1)
	r.each = uint64(min(max(n, 4), 1e6))
}

// waits returns for how many nanoseconds each thread has waited for its core since it began. It
// returns zeros if the kernel does not count it.
func waits(threads [2]int) (w [2]uint64) {
	for i, id := range threads {
		t, _ := cores.TimesOf("self", strconv.Itoa(id))
		w[i] = t.Waited
	}
	return w
}
