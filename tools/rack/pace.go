//go:build linux && (amd64 || arm64)

package rack

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nicless/nicless"
)

// A wait is that of one write.
type wait struct {
	took time.Duration // from when it was due to when its completion was there
	at   time.Time     // when it was due
}

// Waits is what nodes that write at a steady rate have waited, in one phase.
type Waits struct {
	began   time.Time
	list    []wait  // the shortest first
	Free    float64 // the share of the machine's processors that nobody used
	Engines float64 // cores that the engines of these nodes used
	Queued  float64 // how many of their threads, on average, could run and had no processor
}

// at returns the wait that a share of all writes does not exceed.
func (w *Waits) at(share float64) time.Duration {
	if len(w.list) == 0 {
		return 0
	}
	return w.list[min(int(share*float64(len(w.list))), len(w.list)-1)].took
}

// longest is how many of the longest waits a report has.
const longest = 5

func (w *Waits) String() string {
	round := func(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }
	text := fmt.Sprintf("median %v, p99 %v, longest %v, n = %d; the engines used %.2f cores, %.2f of their threads waited for one, %.0f %% of the processors were free; the longest were due after",
		round(w.at(0.5)), round(w.at(0.99)), round(w.at(1)), len(w.list), w.Engines, w.Queued, 100*w.Free)
	for _, k := range w.list[max(len(w.list)-longest, 0):] {
		text += fmt.Sprintf(" %v", k.at.Sub(w.began).Round(10*time.Millisecond))
	}
	return text
}

// over says how much longer the waits are than those of another phase.
func (w *Waits) over(base *Waits) string {
	more := func(share float64) time.Duration {
		return (w.at(share) - base.at(share)).Round(10 * time.Microsecond)
	}
	return fmt.Sprintf("median %v more, p99 %v more, longest %v more", more(0.5), more(0.99), more(1))
}

// pace lets nodes write to their neighbours at a steady rate, and beside it calls do, which may take longer
// than the time of the measurement: that goes on until do has returned. Each write is checked.
func (r *rack) pace(nodes []*node, with func(*node) bool, do func() error) (*Waits, error) {
	ends := make([][]*end, len(nodes)) // do may change the queue pairs of nodes with others
	for i, n := range nodes {
		ends[i] = n.among(with)
	}
	before, err := startWaits(nodes)
	if err != nil {
		return nil, err
	}
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		err := do()
		time.Sleep(time.Until(before.began.Add(r.Phase)))
		close(stop)
		done <- err
	}()
	var mu sync.Mutex
	w := &Waits{began: before.began}
	err = forAll(len(nodes), func(i int) error {
		first := before.began.Add(r.Every * time.Duration(i) / time.Duration(len(nodes)))
		took, err := writeSteadily(ends[i], first, r.Every, stop)
		mu.Lock()
		defer mu.Unlock()
		w.list = append(w.list, took...)
		return err
	})
	if err := errors.Join(err, <-done); err != nil {
		return nil, err
	}
	slices.SortFunc(w.list, func(a, b wait) int { return cmp.Compare(a.took, b.took) })
	return w, before.finish(w, nodes)
}

// writeSteadily writes to one end after the other, for the first time when due says, and once per period
// after it, until stop is closed. A write that was due while another one was under way has waited since then.
func writeSteadily(
	ends []*end, due time.Time, period time.Duration, stop <-chan struct{},
) (list []wait, err error) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return list, nil
		case <-time.After(time.Until(due)):
		}
		if err := ends[i%len(ends)].writeChecked(i); err != nil {
			return list, err
		}
		list = append(list, wait{time.Since(due), due})
		due = due.Add(period)
	}
}

// writeChecked writes to the other end, waits for the completion, and compares what is there.
func (e *end) writeChecked(round int) error {
	m, err := e.d.Find("all")
	if err != nil {
		return err
	}
	at := e.n.at(source, e.slot)
	sent := e.n.mr.Bytes()[at : at+slotSize]
	pattern(sent, e.n.number, e.to.number, round)
	err = e.qp.PostSend(&nicless.SendWR{Op: nicless.Write, Flags: nicless.Signaled,
		SGE:        []nicless.SGE{e.n.mr.SGE(at, slotSize)},
		RemoteAddr: m.Addr + uint64(e.to.at(target, e.back.slot)), RKey: m.RKey})
	if err != nil {
		return err
	}
	if err := e.take(1); err != nil {
		return err
	}
	if came := e.to.mr.Bytes()[e.to.at(target, e.back.slot):][:slotSize]; !bytes.Equal(came, sent) {
		return fmt.Errorf("%v: write %d is complete, and other data is there", e, round)
	}
	return nil
}

// A usage is what was used when a measurement began.
type usage struct {
	began       time.Time
	idle, total uint64 // ticks of all processors
	engines     used
}

func startWaits(nodes []*node) (u usage, err error) {
	u.idle, u.total, err = processors()
	if err != nil {
		return u, err
	}
	u.engines, err = sum(nodes)
	u.began = time.Now()
	return u, err
}

// finish notes what was used since the beginning.
func (u *usage) finish(w *Waits, nodes []*node) error {
	now, err := startWaits(nodes)
	if err != nil {
		return err
	}
	w.Free = float64(now.idle-u.idle) / float64(max(now.total-u.total, 1))
	took := now.began.Sub(u.began).Seconds()
	w.Engines = (now.engines.seconds - u.engines.seconds) / took
	w.Queued = (now.engines.waited - u.engines.waited) / took
	return nil
}

// processors returns the ticks that all processors had nothing to do, and all ticks.
func processors() (idle, total uint64, err error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, err
	}
	line, _, _ := strings.Cut(string(b), "\n")
	f := strings.Fields(line) // cpu user nice system idle iowait irq softirq steal guest guest_nice
	for i := 1; i < min(len(f), 9); i++ {
		n, err := strconv.ParseUint(f[i], 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("/proc/stat: %w", err)
		}
		total += n
		if i == 4 || i == 5 {
			idle += n
		}
	}
	return idle, total, nil
}
