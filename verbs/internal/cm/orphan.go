//go:build linux && (amd64 || arm64)

package cm

// The end of a connection is a DREQ that is answered. A program that dies, or destroys its id,
// cannot wait for the answer, and the other end must be notified all the same. So a link whose
// other end is elsewhere outlives its id: it becomes an orphan, whose id no channel has. The
// kernel sends such a DREQ once.

// maxOrphans bounds the orphans, for which no user is charged. Without room for one more, a
// DREQ is sent once.
const maxOrphans = 4096

// orphanProgram is the program of orphans.
var orphanProgram = &Program{Explain: func(string) {}}

// becomeOrphan makes the link an orphan if it has a message to send, and reports whether it has become one.
func (l *link) becomeOrphan() bool {
	old, m := l.id, l.id.m
	switch l.state {
	case repSent, connected, dreqSent, timeWait:
	default:
		return false
	}
	if m.orphans >= maxOrphans {
		return false
	}
	m.orphans++
	i := &id{m: m, program: orphanProgram, qpType: old.qpType, state: ended, local: old.local,
		attached: old.attached, remote: old.remote, link: l, orphan: true}
	l.id = i
	m.links[l.number] = i
	if from := (remote{l.other, l.peer}); m.peers[from] == old {
		m.peers[from] = i
	}
	l.answerTime = min(l.answerTime, timewait(responseTimeout)+2*timewait(lifetime))
	switch l.state {
	case repSent: // the REP is sent again, too: an RTU is answered with a DREQ
		l.send(l.rej(rejConsumer))
	case connected:
		l.become(dreqSent)
		l.send(l.dreq())
	case timeWait:
		l.wait()
	}
	return true
}

// drop removes the link.
func (l *link) drop() {
	i := l.id
	l.ends()
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
	if i.orphan {
		i.m.orphans--
	}
	i.link = nil
}
