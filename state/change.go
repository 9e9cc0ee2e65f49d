package state

// A Change is how fast counts of an engine grew between two snapshots.
type Change struct {
	Threads []Load
	Clients map[uint32]Rate // by number
	Queues  map[uint32]Rate // by number
	Total   Rate            // of all clients that the reader sees
}

// A Load says which share of a time a thread had work, and which share it had no core. Both are from 0 to 1.
type Load struct{ Busy, Waited float64 }

// A Rate is in a second.
type Rate struct {
	WQEs     float64 // executed
	Bytes    float64 // moved by these
	Receives float64 // consumed
	Failed   float64 // of WQEs
}

// Since returns what has changed since an older snapshot of the same engine. An object that is new or gone
// has no rate, and neither has a queue whose number a new one has got.
func (s *Snapshot) Since(old *Snapshot) *Change {
	c := &Change{Clients: make(map[uint32]Rate), Queues: make(map[uint32]Rate)}
	for i, t := range s.Threads {
		l := Load{}
		if i < len(old.Threads) && t.Time > old.Threads[i].Time {
			was, took := old.Threads[i], float64(t.Time-old.Threads[i].Time)
			l.Busy = share(t.Busy, was.Busy, took)
			l.Waited = share(t.Waited, was.Waited, took)
		}
		c.Threads = append(c.Threads, l)
	}
	clients := make(map[uint32]*Client, len(old.Clients))
	for i := range old.Clients {
		clients[old.Clients[i].Number] = &old.Clients[i]
	}
	for i := range s.Clients {
		n := &s.Clients[i]
		was := clients[n.Number]
		if was == nil || n.Time <= was.Time {
			continue
		}
		took := n.Time - was.Time
		r := Rate{WQEs: perSecond(n.Counts.WQEs, was.Counts.WQEs, took),
			Bytes:    perSecond(n.Counts.Bytes, was.Counts.Bytes, took),
			Receives: perSecond(n.Counts.Receives, was.Counts.Receives, took),
			Failed:   perSecond(n.Counts.Failed, was.Counts.Failed, took)}
		c.Clients[n.Number] = r
		c.Total.WQEs += r.WQEs
		c.Total.Bytes += r.Bytes
		c.Total.Receives += r.Receives
		c.Total.Failed += r.Failed
	}
	queues := make(map[uint32]*Queue, len(old.Queues))
	for i := range old.Queues {
		queues[old.Queues[i].Number] = &old.Queues[i]
	}
	for i := range s.Queues {
		q := &s.Queues[i]
		was := queues[q.Number]
		if was == nil || was.Client != q.Client || q.Time <= was.Time {
			continue
		}
		took := q.Time - was.Time
		c.Queues[q.Number] = Rate{WQEs: perSecond(q.WQEs, was.WQEs, took),
			Bytes:    perSecond(q.Bytes, was.Bytes, took),
			Receives: perSecond(q.Consumed, was.Consumed, took)}
	}
	return c
}

// share returns how much of a time a sum has grown by. A sum of 0 is unknown.
func share(now, was uint64, took float64) float64 {
	if now <= was || was == 0 && now > uint64(took) {
		return 0
	}
	return min(float64(now-was)/took, 1)
}

// perSecond returns how much a count has grown in a second of ns nanoseconds. A count that has gone back is
// that of another object, or was reset.
func perSecond(now, was, ns uint64) float64 {
	if now <= was {
		return 0
	}
	return float64(now-was) * 1e9 / float64(ns)
}
