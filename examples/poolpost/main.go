//go:build linux && (amd64 || arm64)

// Poolpost has two programs post work that have nothing of the engine but memory: no socket, no library call
// that asks it for anything. They map a file, write WQEs and doorbell records into it, and poll CQEs there,
// with the functions of RDMaxcel, as a GPU does.
//
//	go run ./examples/poolpost
//
// The engine runs in this process. It makes its memory in a file and connects two queue pairs. Layouts, as
// JSON, say where in the file everything is. Each of two other processes gets the layouts on its standard
// input, writes a greeting into the memory of the other by RDMA WRITE, and adds to one counter by
// fetch-and-add, at the same time as the other. At the end this process looks into the memory of both, and
// fails if a greeting or an addition is missing.
//
// Virtual machines that share memory with their host can do the same: tools/lab.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/accel"
	"github.com/nicless/nicless/wqe"
)

const usage = `usage:
  poolpost                     an engine and two posters
  poolpost poster NUMBER FILE  a poster alone, as poolpost starts it
`

const (
	poolSize = 16 << 20
	rounds   = 1000 // additions of each poster

	// The memory of each poster.
	mine    = 0   // its greeting
	inbox   = 64  // the greeting of the other
	counter = 128 // both add to that of the first poster
	old     = 136 // what was in the counter before an addition
	size    = 4096
)

// greeting is what a poster, 0 or 1, writes to the other.
func greeting(i int) string { return fmt.Sprintf("greetings from poster %d, through memory alone", i) }

// A node is what a poster has: a queue pair, and memory.
type node struct {
	QP     nicless.RawLayout
	Memory nicless.MemoryLayout
}

func main() {
	var err error
	args := os.Args[1:]
	switch {
	case len(args) == 0:
		err = serve()
	case len(args) == 3 && args[0] == "poster" && (args[1] == "0" || args[1] == "1"):
		err = post(int(args[1][0]-'0'), args[2], os.Stdin)
	case strings.TrimLeft(args[0], "-") == "h" || strings.TrimLeft(args[0], "-") == "help":
		fmt.Print(usage)
	default:
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "poolpost: error: %v\n", err)
		os.Exit(1)
	}
}

// serve runs the engine, starts both posters, and checks what they have done.
func serve() error {
	dir, err := os.MkdirTemp("", "nicless-poolpost-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	pool, err := os.Create(filepath.Join(dir, "pool"))
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := pool.Truncate(poolSize); err != nil {
		return err
	}
	nic, err := nicless.Open(nicless.Config{Memory: &nicless.Memory{File: pool}})
	if err != nil {
		return err
	}
	defer nic.Close()
	nodes, memory, err := connect(nic)
	if err != nil {
		return err
	}
	text, err := json.Marshal(nodes)
	if err != nil {
		return err
	}
	var posters [2]*exec.Cmd
	for i := range posters {
		cmd := exec.Command("/proc/self/exe", "poster", fmt.Sprint(i), pool.Name())
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(string(text)), os.Stdout, os.Stderr
		if err := cmd.Start(); err != nil {
			return err
		}
		posters[i] = cmd
	}
	for i, cmd := range posters {
		if werr := cmd.Wait(); werr != nil {
			err = errors.Join(err, fmt.Errorf("poster %d: %w", i, werr))
		}
	}
	if err != nil {
		return err
	}

	for i, mr := range memory {
		want := greeting(1 - i)
		if got := string(mr.Bytes()[inbox : inbox+len(want)]); got != want {
			return fmt.Errorf("the inbox of poster %d holds %q, not %q", i, got, want)
		}
		fmt.Printf("poster %d has got %q\n", i, want)
	}
	if got := memory[0].Load64(counter); got != 2*rounds {
		return fmt.Errorf("the counter is %d after 2 times %d additions", got, rounds)
	}
	fmt.Printf("the counter is %d: no addition of the two is lost\n", 2*rounds)
	return nil
}

// connect makes what both posters have.
func connect(nic *nicless.Context) (nodes [2]node, memory [2]*nicless.MR, err error) {
	pd, err := nic.AllocPD()
	if err != nil {
		return nodes, memory, err
	}
	var qps [2]*nicless.QP
	for i := range nodes {
		cq, err := nic.CreateCQ(nicless.CQConfig{Entries: 64, PollOnly: true})
		if err != nil {
			return nodes, memory, err
		}
		qps[i], err = pd.CreateQP(nicless.QPConfig{SendCQ: cq, MaxSendWR: 64, MaxSendSGE: 1})
		if err != nil {
			return nodes, memory, err
		}
		memory[i], err = pd.RegisterMemory(size, nicless.FullAccess)
		if err != nil {
			return nodes, memory, err
		}
		nodes[i].QP, err = qps[i].Layout()
		if err != nil {
			return nodes, memory, err
		}
		nodes[i].Memory, err = memory[i].Layout()
		if err != nil {
			return nodes, memory, err
		}
	}
	return nodes, memory, nicless.Pair(qps[0], qps[1], nicless.Connection{})
}

// A poster has a queue pair and memory, and nothing of the engine but these bytes.
type poster struct {
	raw    nicless.Raw
	mem    *accel.Buffer
	posted uint64 // WQEs, each of which has one completion
	polled uint32 // CQEs
}

// post runs a poster.
func post(number int, path string, in io.Reader) error {
	var nodes [2]node
	if err := json.NewDecoder(in).Decode(&nodes); err != nil {
		return fmt.Errorf("layouts: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	pool, err := syscall.Mmap(int(f.Fd()), 0, poolSize, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map %s: %w", path, err)
	}
	var p poster
	p.raw, err = nodes[number].QP.In(pool)
	if err != nil {
		return err
	}
	m, err := nodes[number].Memory.In(pool)
	if err != nil {
		return err
	}
	p.mem = accel.NewBuffer(m)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	n := copy(p.mem.Bytes()[mine:], greeting(number))
	far := nodes[1-number].Memory
	if err := p.do(ctx, wqe.OpRDMAWrite, n, func(w accel.WQEParams) error {
		w.LAddr += mine
		w.RAddr, w.RKey = far.Addr+inbox, far.Key
		return accel.SendWQE(w)
	}); err != nil {
		return err
	}
	first := nodes[0].Memory
	for last := uint64(0); p.posted <= rounds; last++ {
		if err := p.do(ctx, wqe.OpAtomicFA, 8, func(w accel.WQEParams) error {
			w.LAddr += old
			w.RAddr, w.RKey = first.Addr+counter, first.Key
			return accel.AtomicWQE(w, 1, 0)
		}); err != nil {
			return err
		}
		if was := p.mem.Load(old); was < last {
			return fmt.Errorf("the counter was %d, after at least %d additions", was, last)
		}
	}
	fmt.Printf("poster %d (pid %d) has posted %d requests\n", number, os.Getpid(), p.posted)
	return nil
}

// do posts one WQE, which write writes, and waits for its completion.
func (p *poster) do(ctx context.Context, op wqe.Opcode, n int, write func(accel.WQEParams) error) error {
	w := p.raw.SendParams()
	w.WRID, w.OpType, w.Signaled, w.Length = p.posted, op, true, uint32(n)
	w.LAddr, w.LKey = p.mem.Ref(0).Addr, p.mem.Ref(0).Key
	if err := write(w); err != nil {
		return err
	}
	// The doorbell: the number of WQEs into the record, the first words of the WQE into the register.
	accel.RingDB(p.raw.Register, p.raw.Send[int(p.posted%uint64(w.WQECnt))*wqe.BlockSize:][:wqe.BlockSize])
	p.posted++
	for {
		n, err := accel.PollCQE(p.raw.SendCQ.PollParams(p.polled))
		switch {
		case err != nil:
			return err
		case n == accel.CQEFailed:
			return fmt.Errorf("%v: the CQE says that it failed", op)
		case n != accel.CQENone:
			p.polled++
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("%v: no completion: %w", op, ctx.Err())
		}
		runtime.Gosched() // a program that has nothing but memory cannot be woken
	}
}
