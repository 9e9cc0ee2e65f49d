//go:build linux && (amd64 || arm64)

package cm

// The end of a connection is a DREQ that is answered. A program that dies, or destroys its id, cannot wait
// for the answer, but the other end must be notified. So a link whose other end is elsewhere outlives its
// id: it is detached from the id, and gets another id, which is in no channel. The kernel sends such a DREQ
// once.

// maxDetached bounds the number of detached links, because no user is charged for them. Above the bound, a
// DREQ is sent once only.
const maxDetached = 4096

// noProgram is the program of detached links.
var noProgram = &Program{Explain: func(string) {}}

// detach detaches the link from its id if it still has a message to send. It reports whether it has done so.
func (l *link) detach() bool {
	old, m := l.id, l.id.m
	switch l.state {
	case repSent, connected, dreqSent, timeWait:
	default:
		return false
	}
	if m.detachedLinks >= maxDetached {
		return false
	}
	m.detachedLinks++
	i := &id{m: m, program: noProgram, qpType: old.qpType, state: ended, local: old.local,
		attached: old.attached, remote: old.remote, link: l, detached: true}
	l.id = i
	m.links[l.number] = i
	if from := (remote{l.other, l.peer}); m.peers[from] == old {
		m.peers[from] = i
	}
	l.answerTime = min(l.answerTime, timewait(responseTimeout)+2*timewait(lifetime))
	switch l.state {
	case repSent: // the REP is also sent again; an RTU is answered with a DREQ
		l.send(l.rej(rejConsumer))
	case connected:
		l.become(dreqSent)
		l.send(l.dreq())
	case timeWait:
		l.startTimewait()
	}
	return true
}

// drop removes the link.
func (l *link) drop() {
	i := l.id
	l.uncountHalfOpen()
	l.stopResend()
	if l.stop != nil { // the time can be hours, and the id is not charged any more
		l.stop()
	}
	delete(i.m.links, l.number)
	if from := (remote{l.other, l.peer}); i.m.peers[from] == i {
		delete(i.m.peers, from)
	}
	if l.held != nil {
		l.held.Release()
	}
	if i.detached {
		i.m.detachedLinks--
	}
	i.link = nil
}
