package engine

// plantedRules are changes of the source that break a rule of XRC, of data in CQEs, of moderation or
// of multicast. The tests that begin with by find the change.
var plantedRules = []plantedChange{
	{"XRC: an SRQ of any domain", "internal/execution/responder.go", "s == nil || s.XRCD != p.Target()", "s == nil", "TestXRCFaults"},
	{"XRC: a queue pair that sends is a target", "internal/execution/responder.go", "if p.Target() == nil {", "if p == nil {", "TestXRCSides"},
	{"XRC: an SRQ serves after its end", "internal/execution/responder.go", "s.Num != n || s.Gone", "s.Num != n", "TestXRC"},
	{"XRC: always the first SRQ", "internal/execution/responder.go", "s == nil || s.Num != n || s.Gone", "s == nil || s.Gone", "TestXRC"},
	{"XRC: the target's receives", "internal/object/xrc.go", "return j.SRQ.Ready()", "return j.Peer.Posted()", "TestXRC"},
	{"XRC: remote keys of the target's domain", "internal/object/xrc.go", "k.Domain() == j.SRQ.PD &&", "k.Domain() == j.Peer.PD &&", "TestXRC"},
	{"XRC: remote keys of every domain", "internal/object/xrc.go", "k.Domain() == j.SRQ.PD &&", "", "TestXRC"},
	{"XRC: receives name keys of the target's domain", "internal/object/xrc.go", "if j.SRQ != nil {\n\t\treturn j.SRQ.PD", "if j.SRQ == nil {\n\t\treturn j.SRQ.PD", "TestXRC"},
	{"XRC: the target's user index", "internal/object/xrc.go", "return j.SRQ.CQ, j.SRQ.UIDX", "return j.SRQ.CQ, j.Peer.UIDX", "TestXRCOperations"},
	{"XRC: a target ends with its maker", "internal/object/xrc.go", "if len(q.XRC.Others) == 0 {", "if q.Client == c || len(q.XRC.Others) == 0 {", "TestXRCDomains"},
	{"XRC: the first close ends the domain", "internal/request/xrc.go", "d.Members[c.Client].Opened > 0 {", "d.Members[c.Client].Opened > 1 {", "TestXRCDomains"},
	{"XRC: a domain in use is closed", "internal/request/xrc.go", "mine.Opened == 1 && mine.Used > 0", "mine.Opened == 1 && mine.Used > 2", "TestXRCDomains"},
	{"XRC: events only for one client", "internal/object/xrc.go", "for _, c := range q.XRC.Others {", "for _, c := range q.XRC.Others[:0] {", "TestXRCDomains"},
	{"XRC: a target of another domain is opened", "internal/request/xrc.go", "q == nil || q.Target() != d", "q == nil", "TestXRCDomains"},

	{"reasons: after the CQE of a WQE", "internal/execution/flush.go", "	sh.Carry(q.Client, reason.Place{Queue: q.Num, Index: uint16(q.SQ.Done)}, s)\n	sh.requesterError(q, j.Head, s)\n", "	sh.requesterError(q, j.Head, s)\n	sh.Carry(q.Client, reason.Place{Queue: q.Num, Index: uint16(q.SQ.Done)}, s)\n", "TestReasonComesBeforeTheCQE"},
	{"reasons: none of a receive", "internal/execution/responder_fault.go", "	sh.Carry(into.Client, reason.Place{Queue: p.Num, Index: j.Index, Of: control.OfReceive}, s)\n", "	_ = reason.Place{}\n", "TestReceiverIsAtFault"},
	{"reasons: none of a stop", "internal/report/carry.go", "if x == nil || x.Number == q.Num && x.number != 0 {", "if x == nil || x.Number == q.Num {", "TestReasonsOfStops"},
	{"reasons: a stop writes again what the completion carries", "internal/report/carry.go", "x == nil || x.Number == q.Num && x.number != 0", "x == nil", "TestHostileClient"},
	{"reasons: the event of a completion is held back", "internal/report/carry.go", "if x.held && s != cqe.Flush {", "if false {", "TestFaultsOneAfterAnother"},
	{"reasons: the events of flushes have no limit", "internal/report/carry.go", "if x.held && s != cqe.Flush {", "if x.held {", "TestReasonsOfStreams"},
	{"reasons: to another client", "internal/report/carry.go", "x := &sh.Recall[i]; x.Client == c {", "x := &sh.Recall[i]; x.Client != nil {", "TestReceiverIsAtFault"},
	{"reasons: no burst", "internal/codes/limiter.go", "(burst-1)*each", "0", "TestBurstOfExplanations"},
	{"reasons: what is held back is not counted", "internal/report/explain.go", "		c.Count[control.CounterSuppressed]++\n		x.held = true", "		x.held = true", "TestBurstOfExplanations"},

	{"inline: results of WQEs without a CQE", "internal/object/inline.go", " && j.Head.CE() >= wqe.CEAlways", "", "TestInline"},
	{"inline: not the longest result", "internal/object/inline.go", "uint64(q.SQ.inline) >= j.Total", "uint64(q.SQ.inline) > j.Total", "TestInline"},
	{"inline: not the longest message", "internal/object/inline.go", "uint64(q.RQ.Inline) >= j.Total", "uint64(q.RQ.Inline) > j.Total", "TestInline"},
	{"inline: for keys that count from elsewhere", "internal/object/inline.go", "k.From != k.Base || ", "", "TestInline"},
	{"inline: for lists", "internal/object/inline.go", " || k.Room > 0", "", "TestInline"},
	{"inline: a byte less", "internal/completion/inline.go", "copy(room, data)", "copy(room, data[1:])", "TestInline"},
	{"inline: in the second half of an entry of 128 bytes", "internal/completion/inline.go", "q.Buf[slot<<7:]", "q.Buf[slot<<7+64:]", "TestInline"},

	{"full sockets: a completion event is lost", "internal/completion/channel.go", "		sh.HoldLate(q, which)\n		return false\n	}\n	q.Late", "		return true\n	}\n	q.Late", "TestCompletionEventsWaitForRoom"},
	{"full sockets: a queue that has fired comes first", "internal/completion/channel.go", "out.Room.Rests(now) || ch.Late > 0 && !first", "out.Room.Rests(now)", "TestEventsThatWaitComeFirst"},
	{"full sockets: an event about an object is lost", "internal/object/event.go", "return !full", "return !full || full", "TestObjectEventsWaitForRoom"},
	{"full sockets: an event of an object that is gone", "internal/request/qp.go", "	defer dropLate(c.Client, q.Num, qpEvents) // the end of a transfer can be an event\n", "", "TestObjectEventsWaitForRoom"},
	{"full sockets: a closer drops the event", "internal/object/notifier.go", "		n.Kept = &v\n		return false\n", "		return true\n", "TestClosersKeepEvents"},

	{"moderation: one completion late", "internal/completion/moderate.go", "q.Next-p.First < p.Count", "q.Next-p.First <= p.Count", "TestModeration"},
	{"moderation: the period is never over", "internal/completion/moderate.go", "&& sh.Now()-p.Since < p.Period", "", "TestModeration"},
	{"moderation: the count is never reached", "internal/completion/moderate.go", "q.Next-p.First < p.Count && ", "", "TestModeration"},
	{"moderation: what waits stays when it ends", "internal/request/moderate.go", "if waits && q.Armed && !late {", "if waits && !q.Armed && !late {", "TestModeration"},
	{"moderation: the device oversleeps", "internal/object/arm.go", "return p.Since + p.Period", "return ^uint64(0)", "TestSleepEndsForModeration|TestModeration"},

	{"jobs: the key of a peer that has gone", "internal/execution/job.go", "if hasChanged(j) || (j.Epoch != now && sh.changedSince(j)) {", "if (j.Epoch != now && sh.changedSince(j)) || hasChanged(j) {", "TestPeersKeyIsLeftAlone"},

	{"multicast: nobody hears itself", "internal/execution/multicast.go", "p == q && m.How == nic.ReceivesOthers", "p == q", "TestMulticast"},
	{"multicast: all hear themselves", "internal/execution/multicast.go", " || (p == q && m.How == nic.ReceivesOthers)", "", "TestMulticast"},
	{"multicast: twice to one member", "internal/execution/multicast.go", "at.After+1,", "at.After,", "TestMulticast"},
	{"multicast: joined twice", "internal/request/multicast.go", "case g != nil && slices.ContainsFunc(", "case g == nil && slices.ContainsFunc(", "TestMulticast|TestMemberships"},
	{"multicast: empty groups stay", "internal/object/multicast.go", "if len(g.Members) == 0 {", "if len(g.Members) < 0 {", "TestMemberships"},
	{"multicast: more members than the limit", "internal/request/multicast.go", "len(g.Members) >= nic.MaxMembers", "len(g.Members) > nic.MaxMembers", "TestMemberships"},
}
