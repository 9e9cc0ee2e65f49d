//go:build linux && (amd64 || arm64)

// Allreduce adds the arrays of N emulated accelerators, element by element, and
// leaves the sum with every accelerator, as training does with gradients. The
// accelerators form a ring and exchange data by PutSignal. The host only starts them.
//
//	go run ./examples/allreduce
//	go run ./examples/allreduce -n 8 -elements 1000003 -rounds 20
//
// The array is cut into chunks, and each chunk into N segments. There are 2(N-1)
// steps. In each step every accelerator puts one segment into the memory of the next
// accelerator and signals it. In the first N-1 steps the segment is a partial sum,
// which the next accelerator adds to its own (reduce-scatter). In the other N-1 steps
// the segment is a complete sum (all-gather). Each lane has its own chunk under way, so
// that the device moves bytes of one chunk while the accelerators add numbers of
// another.
//
// Every element on every accelerator is compared with the serial sum. The numbers
// are integers, so that the order of additions does not change the result.
//
// The program prints bus bandwidth as NCCL defines it, bytes / seconds x 2(N-1)/N.
// The floor is the bus bandwidth of plain copies: one goroutine copies the same bytes
// from and to the same memory, in the same pieces, and adds nothing.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/nicless/nicless"
	"golang.org/x/sys/unix"
)

func main() {
	n := flag.Int("n", 4, "accelerators, 1 to 64")
	elements := flag.Int("elements", 16<<20, "float32 numbers in the array, 1 to 268435456")
	rounds := flag.Int("rounds", 5, "how often; the quickest counts")
	asJSON := flag.Bool("json", false, "print the result as JSON")
	flag.Parse()
	switch {
	case flag.NArg() > 0:
		usage("%q is not an option", flag.Arg(0))
	case *n < 1 || *n > 64:
		usage("-n %d; 1 to 64 are possible", *n)
	case *elements < 1 || *elements > 1<<28:
		usage("-elements %d; 1 to %d are possible", *elements, 1<<28)
	case *n**elements > 1<<31:
		usage("-n %d -elements %d; %d elements together are the most", *n, *elements, 1<<31)
	case *rounds < 1:
		usage("-rounds %d; 1 is the least", *rounds)
	}
	res, err := run(*n, *elements, *rounds)
	if err != nil {
		fmt.Fprintf(os.Stderr, "allreduce: error: %v\n", err)
		os.Exit(1)
	}
	if *asJSON {
		_ = json.NewEncoder(os.Stdout).Encode(res)
		return
	}
	res.print()
}

func usage(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "allreduce: error: "+format+"\nallreduce: hint: allreduce -h lists the options\n", args...)
	os.Exit(2)
}

// A result is the measurement of the quickest of all rounds.
type result struct {
	Accelerators int     `json:"accelerators"`
	Elements     int     `json:"elements"`
	Bytes        int     `json:"bytes"` // the size of one array
	Rounds       int     `json:"rounds"`
	Chunks       int     `json:"chunks"`
	Lanes        int     `json:"lanes"`
	Factor       float64 `json:"factor"`         // 2(N-1)/N
	Seconds      float64 `json:"seconds"`        // for one all-reduce
	Bus          float64 `json:"bus_gb_s"`       // Bytes / Seconds x Factor
	FloorSeconds float64 `json:"floor_seconds"`  // for plain copies
	Floor        float64 `json:"floor_bus_gb_s"` // Bytes / FloorSeconds x Factor
	Ratio        float64 `json:"ratio"`          // Bus / Floor
}

func (r *result) print() {
	host, _ := os.Hostname()
	fmt.Printf("%s, %s/%s, %d cores\n", host, runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	fmt.Printf("%d accelerators, each with %d float32 (%d bytes); %d chunks, %d at once\n",
		r.Accelerators, r.Elements, r.Bytes, r.Chunks, r.Lanes)
	fmt.Printf("all sums are right, in each of %d rounds; the quickest:\n", r.Rounds)
	if r.Accelerators == 1 {
		fmt.Println("  nothing to move: there is one array")
		return
	}
	line := func(what string, seconds, bus float64) {
		fmt.Printf("  %-13s %9.6f s   bus bandwidth %7.3f GB/s = bytes / seconds x 2(N-1)/N (%.3f)\n", what, seconds, bus, r.Factor)
	}
	line("all-reduce", r.Seconds, r.Bus)
	line("plain copies", r.FloorSeconds, r.Floor)
	fmt.Printf("  ratio         %9.2f     to plain copies, which one goroutine made and which add nothing\n", r.Ratio)
}

func run(n, elements, rounds int) (*result, error) {
	runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), n+2)) // the engine and each accelerator spin
	own, others, err := split()
	if err != nil {
		return nil, err
	}
	nic, err := nicless.Open(nicless.Config{CPUs: own})
	if err != nil {
		return nil, err
	}
	defer nic.Close()
	ring, err := newRing(nic, n, elements, others)
	if err != nil {
		return nil, err
	}
	defer ring.close()

	var best, floor time.Duration
	for round := range rounds {
		ring.fill(round)
		start := time.Now()
		err := ring.reduce()
		took := time.Since(start)
		if err == nil {
			err = ring.check(round)
		}
		if err != nil {
			return nil, fmt.Errorf("round %d: %w", round, err)
		}
		start = time.Now()
		ring.copies()
		copied := max(time.Since(start), 1)
		if round == 0 || took < best {
			best = took
		}
		if round == 0 || copied < floor {
			floor = copied
		}
	}

	res := &result{
		Accelerators: n, Elements: elements, Bytes: 4 * elements, Rounds: rounds, Chunks: ring.chunks,
		Lanes:  ring.lanes,
		Factor: 2 * float64(n-1) / float64(n), Seconds: best.Seconds(), FloorSeconds: floor.Seconds(),
	}
	if n > 1 {
		res.Bus = float64(res.Bytes) / res.Seconds * res.Factor / 1e9
		res.Floor = float64(res.Bytes) / res.FloorSeconds * res.Factor / 1e9
		res.Ratio = res.Bus / res.Floor
	}
	return res, nil
}

// split gives one core to the engine and the others to the accelerators, if there are
// two cores or more. On a shared core, accelerators that wait for memory would keep the
// engine from copying.
func split() (engine, accelerators []int, err error) {
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		return nil, nil, fmt.Errorf("cores: %w", err)
	}
	var cores []int
	for cpu := 0; len(cores) < allowed.Count(); cpu++ {
		if allowed.IsSet(cpu) {
			cores = append(cores, cpu)
		}
	}
	if len(cores) < 2 {
		return nil, nil, nil
	}
	return cores[:1], cores[1:], nil
}
