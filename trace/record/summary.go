package record

import (
	"errors"
	"fmt"
)

// ErrNothing says that no process was seen to open an mlx5 device.
var ErrNothing = errors.New("no process has opened an mlx5 device, as far as a preloaded library sees: " +
	"functions that a program looks up in a handle (dlsym, dlvsym), as NCCL does, are not seen")

// A Summary says what is in a trace, and what is not.
type Summary struct {
	Processes   int
	Queues      int // queue pairs
	WQEs        int
	Completions int

	Unpaired   int // WQEs of queue pairs whose peer is not in the record
	Unfinished int // WQEs at the end of a queue, of which not all completions are known
	Dropped    int // completions that are not in the trace
	Headers    int // datagrams without payload: their headers were not where the device has written them
	Crossed    int // completions that have changed places
	Taken      int // objects whose number another one had, or that were made of those
	Own        int // queue pairs whose rings the program reads or writes itself, or those of their queues
	Gaps       int // queue pairs of which posted blocks are missing
	Cut        int // processes whose file is cut short
	Killed     int // processes that have not ended in order
	losses     [len(lossTexts)]int

	// Firmware is queues that firmware commands (DEVX) have made: nothing of them is in the trace. Named are
	// the first of them.
	Firmware int
	Named    []string
}

// lossTexts say what the library could not copy; see enum nr_loss in verbs/record/raw.h.
var lossTexts = [...]string{
	"of unknown kind",
	"payload that cannot be read, or that no key names",
	"completion queues with compressed entries, from there on",
	"completion queues that were resized, from there on",
	"queue pairs for which there was no memory",
	"keys of implicit on-demand paging, or of memory of other devices",
	"queue pairs of other transports than RC, UC and UD",
	"queues of which the program has asked where their rings are (mlx5dv_init_obj)",
}

func (s *Summary) lost(what uint64) {
	if what >= uint64(len(s.losses)) {
		what = 0
	}
	s.losses[what]++
}

func (s *Summary) finish(g *gatherer) {
	s.Processes = len(g.processes)
	for _, p := range g.processes {
		if p.cut {
			s.Cut++
		} else if !p.ended {
			s.Killed++
		}
	}
}

// Notes returns a line for each thing that is not in the trace as it was. Queues of which nothing is there
// come first.
func (s *Summary) Notes() (list []string) {
	if s.Firmware > 0 {
		list = append(list, fmt.Sprintf("%d queues are NOT recorded: firmware commands (DEVX) have made them. "+
			"On a device of nicless, nicless run --trace FILE --replay records them", s.Firmware))
		for _, q := range s.Named {
			list = append(list, "not recorded: "+q)
		}
		if n := s.Firmware - len(s.Named); n > 0 {
			list = append(list, fmt.Sprintf("not recorded: %d more of them", n))
		}
	}
	for _, x := range []struct {
		n    int
		text string
	}{
		{s.Unpaired, "WQEs are left out: the peers of their queue pairs are not in the record"},
		{s.Unfinished, "WQEs at the end of queues are left out: not all of their completions are known"},
		{s.Dropped, "completions are left out: it is not known which WQEs they belong to"},
		{s.Headers, "datagrams are not compared: their headers are not known"},
		{s.Crossed, "completions have changed places: their messages crossed"},
		{s.Taken, "objects are left out: one of another device has the same number, or they belong to such a one"},
		{s.Own, "queue pairs are left out: the program reads or writes rings of theirs itself"},
		{s.Gaps, "queue pairs end where WQEs are missing: the library could not write them"},
		{s.Cut, "records of processes are cut short"},
		{s.Killed, "processes did not end by exit: what they had not polled is missing"},
	} {
		if x.n > 0 {
			list = append(list, fmt.Sprintf("%d %s", x.n, x.text))
		}
	}
	for i, n := range s.losses {
		if n > 0 {
			list = append(list, fmt.Sprintf("%d times not recorded: %s", n, lossTexts[i]))
		}
	}
	return list
}
