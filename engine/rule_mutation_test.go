package engine

// plantedRules are changes of the source that break a rule of XRC, of data in CQEs, of moderation or
// of multicast. The tests that begin with by find the change.
var plantedRules = []plantedChange{
	{"XRC: an SRQ of any domain", "xrc_respond.go", "s == nil || s.xrcd != p.xrcd", "s == nil", "TestXRCFaults"},
	{"XRC: a queue pair that sends is a target", "xrc_respond.go", "if p.xrcd == nil {", "if p == nil {", "TestXRCSides"},
	{"XRC: an SRQ serves after its end", "xrc_respond.go", "s.num != n || s.gone", "s.num != n", "TestXRC"},
	{"XRC: always the first SRQ", "xrc_respond.go", "s == nil || s.num != n || s.gone", "s == nil || s.gone", "TestXRC"},
	{"XRC: the target's receives", "xrc_respond.go", "return j.srq.ready()", "return j.peer.posted()", "TestXRC"},
	{"XRC: remote keys of the target's domain", "xrc_respond.go", "k.domain() == j.srq.pd &&", "k.domain() == j.peer.pd &&", "TestXRC"},
	{"XRC: remote keys of every domain", "xrc_respond.go", "k.domain() == j.srq.pd &&", "", "TestXRC"},
	{"XRC: receives name keys of the target's domain", "xrc_respond.go", "if j.srq != nil {\n\t\treturn j.srq.pd", "if j.srq == nil {\n\t\treturn j.srq.pd", "TestXRC"},
	{"XRC: the target's user index", "xrc_respond.go", "return j.srq.cq, j.srq.uidx", "return j.srq.cq, j.peer.uidx", "TestXRCOperations"},
	{"XRC: a target ends with its maker", "xrc.go", "if len(q.xrc.others) == 0 {", "if q.client == c || len(q.xrc.others) == 0 {", "TestXRCDomains"},
	{"XRC: the first close ends the domain", "xrc.go", "d.members[c.client].opened > 0 {", "d.members[c.client].opened > 1 {", "TestXRCDomains"},
	{"XRC: a domain in use is closed", "xrc.go", "mine.opened == 1 && mine.used > 0", "mine.opened == 1 && mine.used > 2", "TestXRCDomains"},
	{"XRC: events only for one client", "xrc.go", "for _, c := range q.xrc.others {", "for _, c := range q.xrc.others[:0] {", "TestXRCDomains"},
	{"XRC: a target of another domain is opened", "xrc.go", "q == nil || q.xrcd != d", "q == nil", "TestXRCDomains"},

	{"inline: results of WQEs without a CQE", "inline.go", " && j.head.ce() >= wqe.CEAlways", "", "TestInline"},
	{"inline: not the longest result", "inline.go", "uint64(q.sq.inline) >= j.total", "uint64(q.sq.inline) > j.total", "TestInline"},
	{"inline: not the longest message", "inline.go", "uint64(q.rq.inline) >= j.total", "uint64(q.rq.inline) > j.total", "TestInline"},
	{"inline: for keys that count from elsewhere", "inline.go", "k.from != k.base || ", "", "TestInline"},
	{"inline: for lists", "inline.go", " || k.room > 0", "", "TestInline"},
	{"inline: a byte less", "inline.go", "copy(room, data)", "copy(room, data[1:])", "TestInline"},
	{"inline: in the second half of an entry of 128 bytes", "inline.go", "q.buf[slot<<7:]", "q.buf[slot<<7+64:]", "TestInline"},

	{"moderation: one completion late", "moderate.go", "q.next-p.first < p.count", "q.next-p.first <= p.count", "TestModeration"},
	{"moderation: the period is never over", "moderate.go", "&& sh.now()-p.since < p.period", "", "TestModeration"},
	{"moderation: the count is never reached", "moderate.go", "q.next-p.first < p.count && ", "", "TestModeration"},
	{"moderation: what waits stays when it ends", "moderate.go", "if waits && q.armed {", "if waits && !q.armed {", "TestModeration"},
	{"moderation: the device oversleeps", "moderate.go", "return p.since + p.period", "return ^uint64(0)", "TestSleepEndsForModeration|TestModeration"},

	{"multicast: nobody hears itself", "multicast.go", "p == q && m.how == nic.HearsOthers", "p == q", "TestMulticast"},
	{"multicast: all hear themselves", "multicast.go", " || p == q && m.how == nic.HearsOthers", "", "TestMulticast"},
	{"multicast: twice to one member", "multicast.go", "at.after+1,", "at.after,", "TestMulticast"},
	{"multicast: joined twice", "multicast.go", "case g != nil && slices.ContainsFunc(", "case g == nil && slices.ContainsFunc(", "TestMulticast|TestMemberships"},
	{"multicast: empty groups stay", "multicast.go", "if len(g.members) == 0 {", "if len(g.members) < 0 {", "TestMemberships"},
	{"multicast: more members than the limit", "multicast.go", "len(g.members) >= nic.MaxMembers", "len(g.members) > nic.MaxMembers", "TestMemberships"},
}
