package engine

// plantedAnnouncements are changes of the source that break a rule of queues that registers start, of guarded
// queues, or of consumer indices.
var plantedAnnouncements = []plantedChange{
	{"guard: words need not be written", "internal/announce/written.go", "		return uint32(missing) * 4, LateBytes\n", "		return 0, NotLate\n", "TestGuardedOrder"},
	{"guard: slots are not marked again", "internal/announce/guard.go", "	for i := range blocks {\n		g.fill(at + i)\n	}\n", "", "TestGuardedOrder"},
	{"guard: a new ring is not marked", "internal/announce/guard.go", "		copy(g.ring[at:], marks[:])\n", "		_ = at\n", "TestGuardWaits"},
	{"guard: half of the announced blocks", "internal/announce/guard.go", "(ds+3)/4 > left", "(ds+3)/4 > left+2", "TestGuardWaits"},
	{"guard: the immediate must be written", "internal/announce/written.go", "		need(3, unit)\n	} else", "		need(unit, unit)\n	} else", "TestGuardedOrder"},
	{"guard: reserved words must be written", "internal/announce/written.go", "need(0, 2) // reserved\n", "need(2, 2)\n", "TestGuardLeavesReservedWords"},
	{"register: a repeated ring is explained", "internal/announce/source.go", " && b.Opcode() != 0 &&", " &&", "TestRungAgain"},
	{"register: of any queue pair", "internal/announce/source.go", "if b.QPN() != num {", "if b.QPN() == 0 {", "TestStrayDoorbells"},
	{"register: what stays there counts", "internal/announce/source.go", "if v == s.last[i] {", "if v == 0 {", "TestStaleRegister"},
	{"record: what stays there counts", "internal/announce/source.go", "if index := uint16(word); index != s.index {", "if index := uint16(word); true {", "TestStaleRe"},
	{"register: the form of a WQE says the next index", "internal/announce/source.go", "b.Index() + uint16(b.DS()+3)/4", "b.Index()", "TestRegisterStartsWork"},
	{"register: too far ahead", "internal/announce/source.go", "if n > ring {", "if n > 1<<16 {", "TestStrayDoorbells"},
	{"register: stays after a reset", "internal/request/modify.go", "			q.Source.Reset(q.Num)\n", "", "TestRegisterAfterReset"},
	{"register: a cold queue is not examined", "internal/loop/active.go", "if w.Q.Flushes() || w.Q.Source != nil {", "if w.Q.Flushes() {", "TestRungWhileCold"},
	{"register: the record counts too", "internal/request/announced.go", "		record = nil\n", "		_ = record\n", "TestRecordOfRungQueues"},
	{"guard: a visit copies any number of blocks", "internal/loop/watched.go", "uint64(min(2*sh.Settings.Burst, admitMost))", "q.SQ.Mask + 1", "TestFullGuarded"},
	{"guard: copies run ahead of what is executed", "internal/report/announce.go", "	if q.Wire != nil {\n		from = s.Admitted()", "	if true {\n		from = s.Admitted()", "TestFullGuarded"},
	{"guard: copies are free", "internal/loop/watched.go", "	sh.Sched.Spent += copied * wqe.BlockSize // the client pays for the copy in its turn\n", "	_ = copied\n", "TestCopiesOfGuarded"},
	{"guard: copies of WQEs that are late are free", "internal/loop/active.go", "			if bytes <= 0 {\n				break\n			}\n			continue\n", "			continue\n", "TestCopiesOfGuarded"},
	{"register: a patrol looks at any number", "internal/loop/active.go", "		polls -= sh.Sched.Polls\n", "", "TestPatrolCounts"},
	{"register: a pass looks at any number", "internal/loop/look.go", "			*left -= sh.Sched.Polls\n", "", "TestPatrolCounts"},
	{"CQ: the index is always of 24 bits", "internal/object/consumer.go", "case q.Counts == ModuloSize, q.Counts == Unknown && behind > most:", "case false:", "TestCountersOfConsumers"},
	{"CQ: the index may always be modulo the size", "internal/object/consumer.go", "case q.Counts == ModuloSize, q.Counts == Unknown && behind > most:", "case true:", "TestOverrunIsExact"},
	{"CQ: a new queue is read only when it seems full", "internal/object/consumer.go", "if q.Counts == Unknown && room-1 < size {", "if false {", "TestCounterComesRound"},
	{"SRQ: a cyclic one follows links", "internal/object/srq.go", "if !s.Cyclic {", "if true {", "TestCyclicSRQ"},
}
