//go:build linux

package steady

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// A Load is what runs beside the tests.
type Load struct {
	Busy   int // busy loops
	Memory int // MiB that one process writes again and again, a byte in each page
	Disk   int // MiB of a file that one process writes and syncs again and again
}

// LoadWord is the first argument of a process of the load. Its main function calls LoadMain.
const LoadWord = "load"

const mib = 1 << 20

// ParseLoad returns a load with the parts of a text like "busy=4,memory=512,disk=256" changed.
func ParseLoad(text string, l Load) (Load, error) {
	parts := map[string]*int{"busy": &l.Busy, "memory": &l.Memory, "disk": &l.Disk}
	for part := range strings.SplitSeq(text, ",") {
		if part == "" {
			continue
		}
		name, number, _ := strings.Cut(part, "=")
		n, err := strconv.Atoi(number)
		if parts[name] == nil || err != nil || n < 0 {
			return l, fmt.Errorf("load %q: it is a list of busy=N, memory=MIB and disk=MIB", part)
		}
		*parts[name] = n
	}
	return l, nil
}

// A running load.
type running struct {
	mu       sync.Mutex
	children []*exec.Cmd
	stopped  bool
	waiting  sync.WaitGroup
}

// start starts the processes. If one of them ends by itself, fail is called with the reason, because
// then what was measured had less beside it than was asked for.
func (l Load) start(fail func(error)) (*running, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	r := &running{}
	var kinds [][]string
	for range l.Busy {
		kinds = append(kinds, []string{LoadWord, "busy", "0"})
	}
	if l.Memory > 0 {
		kinds = append(kinds, []string{LoadWord, "memory", strconv.Itoa(l.Memory)})
	}
	if l.Disk > 0 {
		kinds = append(kinds, []string{LoadWord, "disk", strconv.Itoa(l.Disk)})
	}
	for _, args := range kinds {
		if err := r.add(self, args, fail); err != nil {
			r.stop()
			return nil, fmt.Errorf("load %s: %w", args[1], err)
		}
	}
	return r, nil
}

func (r *running) add(self string, args []string, fail func(error)) error {
	c := exec.Command(self, args...)
	said := new(strings.Builder)
	c.Stderr = said
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's interrupt is for the parent
	// The pipe closes when this process ends, whatever ends it. Pdeathsig would report the end of
	// the thread that has started the child.
	if _, err := c.StdinPipe(); err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	r.children = append(r.children, c)
	r.waiting.Go(func() {
		err := c.Wait()
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.stopped {
			fail(fmt.Errorf("the load %s has ended: %v %s", args[1], err, said))
		}
	})
	return nil
}

// signal sends a signal to all processes: SIGSTOP and SIGCONT hold the load up.
func (r *running) signal(s syscall.Signal) {
	for _, c := range r.children {
		_ = c.Process.Signal(s)
	}
}

// stop ends the load and waits for its end.
func (r *running) stop() {
	r.mu.Lock()
	r.stopped = true
	r.mu.Unlock()
	r.signal(syscall.SIGKILL)
	r.waiting.Wait()
}

// LoadMain is a process of the load. It ends when standard input does.
func LoadMain(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("usage: %s KIND MIB", LoadWord)
	}
	size, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	// If memory runs out, the kernel ends the load and not the tests.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	switch args[0] {
	case "busy":
		for ctx.Err() == nil {
		}
	case "memory":
		for memory := make([]byte, size*mib); ctx.Err() == nil; {
			for i := 0; i < len(memory); i += os.Getpagesize() {
				memory[i]++
			}
		}
	case "disk":
		return writeDisk(ctx, size)
	default:
		return fmt.Errorf("no load %q", args[0])
	}
	return nil
}

// writeDisk writes a file in the directory for temporary files. It has no name there, so nothing of it
// remains.
func writeDisk(ctx context.Context, size int) error {
	f, err := os.CreateTemp("", "steady-load")
	if err != nil {
		return err
	}
	if err := os.Remove(f.Name()); err != nil {
		return err
	}
	block := make([]byte, mib)
	for ctx.Err() == nil {
		for i := 0; i < size && ctx.Err() == nil; i++ {
			if _, err := f.WriteAt(block, int64(i)*mib); err != nil {
				return fmt.Errorf("%s: %w", os.TempDir(), err)
			}
		}
		if err := f.Sync(); err != nil {
			return err
		}
	}
	return nil
}
