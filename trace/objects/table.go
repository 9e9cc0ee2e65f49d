package objects

import (
	"encoding/binary"
	"strconv"
	"strings"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/wqe"
)

// A device has at most 2^24 queue pairs, because their numbers have 24 bits. One that serves a rack has some
// ten thousand. A Table keeps no more than this, so that a damaged trace cannot make it keep 2^32.
const (
	mostQueues  = 1 << 20
	mostClients = 1 << 20
)

// mostName is the longest name of a client that is kept, in bytes. Names of processes are shorter.
const mostName = 4096

// A Client is a process that uses the device.
type Client struct {
	Number uint32
	PID    uint64 // process id; 0: unknown
	Name   string // as the client gave it: quote it before a terminal gets it
}

// Program returns the name of the client's program, if the client's name has it as the engine writes it,
// as in: pid 4711 uid 0 "put" nicless0. Otherwise it returns the client's name.
func (c *Client) Program() string {
	if i := strings.IndexByte(c.Name, '"'); i >= 0 {
		if quoted, err := strconv.QuotedPrefix(c.Name[i:]); err == nil {
			name, _ := strconv.Unquote(quoted) // QuotedPrefix has checked it
			return name
		}
	}
	return c.Name
}

// A Queue is a queue pair.
type Queue struct {
	Number    uint32
	Client    uint32 // number of its client
	Transport trace.Transport
	State     trace.State
	Info      trace.QueueInfo

	announced uint16 // index after the last block that a doorbell has announced
	rung      bool   // there was a doorbell

	fetched map[uint16]*WQE // by their places in the ring
	order   []*turn         // of these, and of others
	open    *WQE            // the last one of the fetch before, if that ended within it
}

// Address returns what kind of address segment the WQEs of the queue pair have. It is a guess for
// a queue pair that no event has described: q may be nil.
func (q *Queue) Address() wqe.Address {
	if q == nil {
		return wqe.AddressGuess
	}
	switch q.Transport {
	case trace.RC, trace.UC:
		return wqe.NoAddress
	case trace.UD:
		return wqe.AddressUD
	case trace.Raw:
		return wqe.AddressEth
	case trace.XRCIni, trace.XRCTgt:
		return wqe.AddressXRC
	case trace.DCI, trace.DCT:
		return wqe.AddressDC
	}
	return wqe.AddressGuess
}

// A Table is what exists on a device at a moment of its trace. The zero Table is ready. It is not safe for
// concurrent use.
type Table struct {
	clients map[uint32]*Client
	queues  map[uint32]*Queue
	of      map[uint32]map[uint32]*Queue // queues by their clients, whether these are known or not
	busy    map[*Queue]struct{}          // queues that may have WQEs
	strange map[uint32]*Queue            // queue pairs that no event has described: they have only WQEs
	blocks  int                          // how many blocks of WQEs are kept
	fresh   uint16                       // blocks that the event before, a doorbell, has announced first
	last    []*WQE                       // WQEs of the event before, if it is a fetch
	gone    trace.Event                  // the event before, if it says that something is no longer
}

// Event updates the table by an event. A thing that the event says to be gone, or a WQE that it says to be
// executed, is removed by the next event, so that the caller can still name it.
func (t *Table) Event(e *trace.Event) {
	t.removeGone()
	t.last = t.last[:0]
	switch e.Kind {
	case trace.KindClient:
		if t.clients == nil {
			t.clients = map[uint32]*Client{}
		}
		if len(t.clients) < mostClients || t.clients[e.Queue] != nil {
			name := string(e.Data[:min(len(e.Data), mostName)])
			t.clients[e.Queue] = &Client{Number: e.Queue, PID: e.Value, Name: name}
		}
	case trace.KindQueue:
		t.described(e)
	case trace.KindState:
		if q := t.queues[e.Queue]; q != nil {
			q.State = trace.State(e.Count)
			if q.State == trace.RST {
				t.drop(q) // the device forgets the WQEs of a queue pair that is reset
				q.rung = false
			}
		}
	case trace.KindDoorbell:
		t.doorbell(e)
	case trace.KindFetch:
		t.fetch(e)
	case trace.KindClientGone, trace.KindQueueGone, trace.KindExecute, trace.KindFail:
		t.gone = trace.Event{Kind: e.Kind, Queue: e.Queue, Index: e.Index, Count: e.Count}
	case trace.KindCQE:
		if qp, index, ok := Completes(e); ok {
			t.gone = trace.Event{Kind: e.Kind, Queue: qp, Index: index}
		}
	case trace.KindLost:
		// Among the lost events may be some that say that WQEs were executed.
		for q := range t.busy {
			t.drop(q)
		}
		t.busy, t.strange = nil, nil // clear would leave a map as large as it ever was
	}
}

// doorbell counts the blocks that no doorbell has announced before.
func (t *Table) doorbell(e *trace.Event) {
	t.fresh = e.Count
	q := t.queues[e.Queue]
	if q == nil {
		return
	}
	if known := int16(q.announced - e.Index); q.rung && known > 0 {
		t.fresh -= min(uint16(known), e.Count)
	}
	if t.fresh > 0 {
		q.announced, q.rung = e.Index+e.Count, true
	}
}

// Announced returns how many blocks, the last ones of an event of kind KindDoorbell, no doorbell
// has announced before. The device finds a record again as long as it has not executed everything that the
// record announces. It is valid until the next event.
func (t *Table) Announced() uint16 { return t.fresh }

func (t *Table) described(e *trace.Event) {
	info, err := trace.ParseQueueInfo(e.Data)
	if err != nil {
		return // readers of the event say what is wrong
	}
	q := t.queues[e.Queue]
	if q == nil {
		if len(t.queues) >= mostQueues {
			return
		}
		if t.queues == nil {
			t.queues = map[uint32]*Queue{}
		}
		if q = t.strange[e.Queue]; q == nil {
			q = &Queue{Number: e.Queue}
		}
		delete(t.strange, e.Queue)
		t.queues[e.Queue] = q
	}
	if q.Info.SendBlocks != info.SendBlocks {
		t.drop(q) // the places of WQEs were those of another ring
	}
	t.disown(q)
	q.Client, q.Info = uint32(e.Value), info
	t.own(q)
	q.Transport, q.State = trace.Transport(e.Count), trace.State(e.Index)
}

// removeGone removes what the event before has said to be gone.
func (t *Table) removeGone() {
	e := &t.gone
	switch e.Kind {
	case trace.KindClientGone:
		for _, q := range t.of[e.Queue] {
			t.remove(q)
		}
		delete(t.clients, e.Queue)
	case trace.KindQueueGone:
		if q := t.queues[e.Queue]; q != nil {
			t.remove(q)
		}
	case trace.KindExecute, trace.KindFail:
		if q := t.queue(e.Queue); q != nil {
			t.executed(q, e.Index, e.Count)
		}
	case trace.KindCQE:
		if q := t.queues[e.Queue]; q != nil && q.Info.Port != 0 {
			t.completed(q, e.Index)
		}
	}
	e.Kind = trace.KindSkip
}

func (t *Table) remove(q *Queue) {
	t.drop(q)
	t.disown(q)
	delete(t.queues, q.Number)
}

// own adds a queue to those of its client.
func (t *Table) own(q *Queue) {
	if t.of == nil {
		t.of = map[uint32]map[uint32]*Queue{}
	}
	if t.of[q.Client] == nil {
		t.of[q.Client] = map[uint32]*Queue{}
	}
	t.of[q.Client][q.Number] = q
}

// disown undoes own.
func (t *Table) disown(q *Queue) {
	all := t.of[q.Client]
	delete(all, q.Number)
	if len(all) == 0 {
		delete(t.of, q.Client)
	}
}

// Client returns a client by its number in the watch, or nil.
func (t *Table) Client(number uint32) *Client { return t.clients[number] }

// Queue returns a queue pair by its number, or nil if no event has described it.
func (t *Table) Queue(number uint32) *Queue { return t.queues[number] }

// queue is Queue for queue pairs that no event has described, too.
func (t *Table) queue(number uint32) *Queue {
	if q := t.queues[number]; q != nil {
		return q
	}
	return t.strange[number]
}

// QueueOf returns the number of the queue pair that an event is about. ok is false if it is about none.
// A completion is about the queue pair whose WQE or receive it completes.
func QueueOf(e *trace.Event) (number uint32, ok bool) {
	switch e.Kind {
	case trace.KindCQE:
		if len(e.Data) < cqe.Size {
			return 0, false
		}
		return cqe.Tail(binary.BigEndian.Uint64(e.Data[cqe.OffTail:])).QPN(), true
	case trace.KindExplanation:
		return e.Queue, e.Count != 2 && e.Queue != 0 // 0: a request that was refused
	case trace.KindQueue, trace.KindQueueGone, trace.KindState, trace.KindDoorbell, trace.KindFetch,
		trace.KindExecute, trace.KindWait, trace.KindSlice, trace.KindFail, trace.KindSent,
		trace.KindReceived, trace.KindPayload:
		return e.Queue, true
	case trace.KindReceive:
		return uint32(e.Value), true
	case trace.KindPosted:
		return e.Queue, e.Count == 0
	case trace.KindChanged:
		return e.Queue, !trace.ChangedPart(e.Count).Shared()
	}
	return 0, false
}

// Completes returns which queue pair an event of kind KindCQE is about, and the index of the last WQE that it
// completes: the WQEs before that are complete, too. ok is false if it completes no WQE.
func Completes(e *trace.Event) (qp uint32, index uint16, ok bool) {
	if e.Kind != trace.KindCQE || len(e.Data) < cqe.Size {
		return 0, 0, false
	}
	w := cqe.ParseWC((*[cqe.Size]byte)(e.Data))
	return w.QPN, w.Counter + max(e.Count, 1) - 1, w.Requester()
}

// ClientOf returns the client that an event is about, or nil if it is about none, or about one that the
// table does not know.
func (t *Table) ClientOf(e *trace.Event) *Client {
	switch e.Kind {
	case trace.KindClient, trace.KindClientGone:
		return t.clients[e.Queue]
	case trace.KindKey:
		k, err := trace.ParseKeyInfo(e.Data)
		if err != nil {
			return nil
		}
		return t.clients[k.Client]
	case trace.KindCQ, trace.KindSRQ:
		return t.clients[uint32(e.Value)]
	}
	if e.Kind == trace.KindExplanation && e.Queue == 0 {
		return t.clients[uint32(e.Value)]
	}
	if n, ok := QueueOf(e); ok && t.queues[n] != nil {
		return t.clients[t.queues[n].Client]
	}
	return nil
}
