package niclesstest

import (
	"cmp"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/hostpath"
	"github.com/nicless/nicless/internal/control"
)

// A ledger has what a client has made and not destroyed. It implements inside.Ledger.
type ledger struct {
	mu      sync.Mutex
	objects map[object]string // where each was made; "": by Pair, which closes it
	lost    []lost
	order   map[object]int // the place of each in the order in which they were made
	made    int
}

// An object is one of the client's objects.
type object struct {
	kind   string
	number uint32
}

// A lost completion was not polled before its queue pair went.
type lost struct {
	cqn uint32
	hostpath.Unpolled
}

func newLedger() ledger {
	return ledger{objects: make(map[object]string), order: make(map[object]int)}
}

// Served notes what a request has made or destroyed.
func (l *ledger) Served(op control.Op, req, ans control.Message) {
	o, made := change(op, req, ans)
	if o.kind == "" {
		return
	}
	place, ours := "", false
	if made {
		place, ours = caller(o.kind)
		if ours {
			place = ""
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !made {
		delete(l.objects, o)
		delete(l.order, o)
		return
	}
	l.made++
	l.objects[o], l.order[o] = place, l.made
}

// change returns the object that a request has made or destroyed. Its kind is "" if the request does neither.
// Keys of memory, windows and lists are destroyed by the same request, so that they have one kind.
func change(op control.Op, req, ans control.Message) (o object, made bool) {
	switch op {
	case control.OpAllocPD:
		return object{"PD", ans.(*control.PD).PDN}, true
	case control.OpDeallocPD:
		return object{"PD", req.(*control.PD).PDN}, false
	case control.OpRegMR, control.OpAllocMW, control.OpCreateMkey:
		return object{"key", ans.(*control.Key).Key}, true
	case control.OpDeregMR:
		return object{"key", req.(*control.Key).Key}, false
	case control.OpCreateChannel:
		return object{"channel", ans.(*control.Channel).ID}, true
	case control.OpDestroyChannel:
		return object{"channel", req.(*control.Channel).ID}, false
	case control.OpCreateCQ:
		return object{"CQ", ans.(*control.CQN).CQN}, true
	case control.OpDestroyCQ:
		return object{"CQ", req.(*control.CQN).CQN}, false
	case control.OpCreateSRQ:
		return object{"SRQ", ans.(*control.SRQN).SRQN}, true
	case control.OpDestroySRQ:
		return object{"SRQ", req.(*control.SRQN).SRQN}, false
	case control.OpCreateQP:
		return object{"QP", ans.(*control.QPN).QPN}, true
	case control.OpDestroyQP:
		return object{"QP", req.(*control.QPN).QPN}, false
	}
	return object{}, false
}

// Gone notes that the client is closed, and its objects with it.
func (l *ledger) Gone() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.objects)
}

// Dropped notes completions that nobody can poll any more. A flushed work request failed because another
// one did, or because the program has given the queue pair up: programs are free not to poll its
// completion.
func (l *ledger) Dropped(cqn uint32, list []hostpath.Unpolled) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, u := range list {
		if u.Syndrome != cqe.Flush {
			l.lost = append(l.lost, lost{cqn, u})
		}
	}
}

// left returns the objects that are left, in the order in which they were made.
func (l *ledger) left(client string) (list []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var objects []object
	for o, place := range l.objects {
		if place != "" {
			objects = append(objects, o)
		}
	}
	slices.SortFunc(objects, func(a, b object) int { return cmp.Compare(l.order[a], l.order[b]) })
	for _, o := range objects {
		list = append(list, fmt.Sprintf("%s %#x of %s, made at %s", o.kind, o.number, client, l.objects[o]))
	}
	return list
}

// unpolled returns the completions that were not polled, in the order in which they came.
func (l *ledger) unpolled(client string) (list []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, u := range l.lost {
		of, how := "wqe", "success"
		if o := u.Tail.OpOwn().Opcode(); o != cqe.Req && o != cqe.ReqErr {
			of = "receive"
		}
		if u.Failed() {
			how = u.Syndrome.Error()
		}
		list = append(list, fmt.Sprintf("qp 0x%06x %s %d: %s, in cq 0x%06x of %s",
			u.Tail.QPN(), of, u.Tail.Counter(), how, u.cqn, client))
	}
	return list
}

const (
	rootPackage = "github.com/nicless/nicless."
	thisPackage = "github.com/nicless/nicless/niclesstest."
	ownChannel  = rootPackage + "(*CQ).create" // makes the channel of a CQ that has one of its own
	exportsSink = rootPackage + "(*QP).Export" // makes memory that goes with the queue pair
	makesPair   = thisPackage + "(*Device).Pair"
)

// caller returns the place in the test, or in the program under test, that has made an object: the first
// that is not in package nicless. ours is true if the object is closed with another one, or by the device.
func caller(kind string) (place string, ours bool) {
	var pcs [32]uintptr
	// The frames above are runtime.Callers, caller, ledger.Served and guest.Call.
	frames := runtime.CallersFrames(pcs[:runtime.Callers(4, pcs[:])])
	for {
		f, more := frames.Next()
		switch {
		case kind == "channel" && f.Function == ownChannel, kind == "key" && f.Function == exportsSink,
			strings.HasPrefix(f.Function, makesPair):
			return "", true
		case place == "" && !strings.HasPrefix(f.Function, rootPackage):
			dir, file := filepath.Split(f.File)
			place = fmt.Sprintf("%s:%d", filepath.Join(filepath.Base(dir), file), f.Line)
		}
		if !more {
			return cmp.Or(place, "an unknown place"), false
		}
	}
}
