package nicless

import (
	"slices"
	"sync"

	"github.com/nicless/nicless/hostpath"
	"github.com/nicless/nicless/sanitize"
	"github.com/nicless/nicless/trace"
)

// sanitizers are all of this process. Queues that are made on a device with a sanitizer note where their work
// is posted, whichever context makes them: a race has two ends.
var sanitizers = sanitizerList{protected: make(map[*client]struct{})}

type sanitizerList struct {
	mu        sync.Mutex
	list      []*Sanitizer
	protected map[*client]struct{} // clients of which receive buffers may be protected, until they are closed
}

func (l *sanitizerList) add(s *Sanitizer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, s)
}

// remove removes a sanitizer. It returns the clients of which nothing is to be protected any more.
func (l *sanitizerList) remove(s *Sanitizer) (list []*client) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = slices.DeleteFunc(l.list, func(x *Sanitizer) bool { return x == s })
	for c := range l.protected {
		if !l.seen(c) {
			list = append(list, c)
			delete(l.protected, c)
		}
	}
	return list
}

// seen reports whether a sanitizer looks at the device of c. The caller holds mu.
func (l *sanitizerList) seen(c *client) bool {
	return slices.ContainsFunc(l.list, func(s *Sanitizer) bool { return s.sees(c) })
}

// made tells the sanitizers of a queue that c has made, before anything is posted to it.
func (l *sanitizerList) made(c *client, at queueAt, sends, receives *hostpath.Posts) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.list {
		if s.sees(c) {
			s.posters.add(at, &posting{own: s.c == c, sends: hostpath.NewPostFinder(sends, true),
				receives: hostpath.NewPostFinder(receives, true)})
		}
	}
}

// present tells s of the queue pairs that there are already: its own, and those of other contexts that have
// sanitizers.
func (l *sanitizerList) present(s *Sanitizer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, other := range l.list {
		if other.sees(s.c) {
			s.posters.present(other.c, other == s)
		}
	}
}

// sees reports whether s looks at the device of c.
func (s *Sanitizer) sees(c *client) bool { return s.c.limits.GUID == c.limits.GUID }

// A queueAt is a queue pair or a shared receive queue.
type queueAt struct {
	number uint32
	shared bool
}

// A posting is what a sanitizer knows of the posts to a queue.
type posting struct {
	own             bool // it is of the context that is sanitized
	sends, receives hostpath.PostFinder
}

// posters have the stacks of posts that the device has found, some milliseconds before, and know which client
// of the device the sanitized context is.
type posters struct {
	// These belong to the goroutine that takes events.
	lines    map[hostpath.Stack][]string
	consumes bool           // the event says that a receive of a shared receive queue was consumed
	consumed hostpath.Stack // its stack

	mu     sync.Mutex
	queues map[queueAt]*posting
	owners map[uint32]uint32 // by the number of a queue pair: its client
	client uint32            // number of the client that is sanitized; 0: not known yet
	ended  bool              // it has gone
}

func newPosters() *posters {
	return &posters{lines: make(map[hostpath.Stack][]string), queues: make(map[queueAt]*posting),
		owners: make(map[uint32]uint32)}
}

// add adds a queue.
func (p *posters) add(at queueAt, q *posting) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queues[at] = q
	p.identify(at.number)
}

// present adds the queue pairs that c has already. own says that c is the sanitized client.
func (p *posters) present(c *client, own bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for number, q := range c.qps {
		x := &posting{own: own}
		if q := q.Value(); q != nil {
			x.sends = hostpath.NewPostFinder(q.sends.Posts(), false)
			if q.rq != nil {
				x.receives = hostpath.NewPostFinder(q.rq.Posts(), false)
			}
		}
		p.add(queueAt{number: number}, x)
	}
}

// identify notes which client the context is, if a queue pair is its own. p.mu is held.
func (p *posters) identify(qp uint32) {
	if q := p.queues[queueAt{number: qp}]; q != nil && q.own {
		if n, ok := p.owners[qp]; ok {
			p.client = n
		}
	}
}

// is reports whether a client is the one that is sanitized.
func (p *posters) is(client uint32) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.client != 0 && p.client == client
}

// left reports whether the client that has gone is the sanitized one, the first time.
func (p *posters) left(client uint32) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := p.client != 0 && p.client == client && !p.ended
	p.ended = p.ended || first
	return first
}

// known reports whether it is known which client is sanitized.
func (p *posters) known() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.client != 0
}

// event notes which queues there are, and that receives of shared receive queues are used.
func (p *posters) event(e *trace.Event) {
	p.consumes = e.Kind == trace.KindReceive && e.Count != 0
	switch e.Kind {
	case trace.KindQueue, trace.KindQueueGone, trace.KindSRQ, trace.KindReceive, trace.KindLost:
	default:
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case e.Kind == trace.KindQueue:
		p.owners[e.Queue] = uint32(e.Value)
		p.identify(e.Queue)
	case e.Kind == trace.KindQueueGone:
		delete(p.owners, e.Queue)
		delete(p.queues, queueAt{number: e.Queue})
	case e.Kind == trace.KindSRQ && e.Index == trace.KeyGone:
		delete(p.queues, queueAt{e.Queue, true})
	case p.consumes:
		p.consumed = 0
		if q := p.queues[queueAt{e.Queue, true}]; q != nil {
			p.consumed = q.receives.Consumed(e.Index)
		}
	case e.Kind == trace.KindLost:
		for _, q := range p.queues {
			q.sends.Lose()
			q.receives.Lose()
		}
	}
}

// stack implements sanitize.Options.Stack.
func (p *posters) stack(post sanitize.Post) []string {
	s := p.find(post)
	list, ok := p.lines[s]
	if !ok {
		list = s.Lines()
		p.lines[s] = list
	}
	return list
}

func (p *posters) find(post sanitize.Post) hostpath.Stack {
	p.mu.Lock()
	defer p.mu.Unlock()
	shared := post.Of == sanitize.SharedReceives
	q := p.queues[queueAt{post.Queue, shared}]
	switch {
	case q == nil:
		return 0
	case shared && p.consumes:
		return p.consumed
	case shared:
		return q.receives.Listed(post.Index)
	case post.Of == sanitize.Receives:
		return q.receives.Found(post.Index)
	}
	return q.sends.Found(post.Index)
}
