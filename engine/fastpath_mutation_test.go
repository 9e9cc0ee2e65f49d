package engine

// plantedFastPath are rules that the slow path keeps. Each function of the fast path that executes WQEs
// has at least one of them.
var plantedFastPath = []plantedRule{
	{"a WRITE moves all bytes", "copy(far[:len(far)-1], near)", "TestFastPathAgrees"},
	{"the remote key of a WRITE or READ is one of the peer", "if remote.Client != p.Client ||", "TestFastPathAgrees"},
	{"the remote key gives the right", "", "TestFastPathAgrees"},
	{"the peer gives the right", "return need, p.Attr.Access != 0 &&", "TestFastPathAgrees"},
	{"the peer takes READs", "(!info.Reads || p.Attr.MaxDestRdAtomic < 255)", "TestFastPathAgrees"},
	{"inline data of a WRITE begin after their length", "near = b[wqe.MoveInlineAt+1:][:n]", "TestFastPathAgrees"},
	{"a READ reports its bytes", "bytes = 0", "TestFastPathAgrees"},
	{"READs may write to their memory", "", "TestFastPathAgrees"},
	{"receives are counted", "", "TestFastPathAgrees"},
	{"a SEND can be solicited", "attention = object.Event", "TestFastPathAgrees"},
	{"inline data of a SEND begin after their length", "near = b[wqe.SendInlineAt+1:][:n]", "TestFastPathAgrees"},
	{"the receive has room", "if room+1 < n ||", "TestFastPathAgrees"},
	{"SEND_IMM delivers its immediate", "imm = 0", "TestFastPathAgrees"},
	{"a receive completes with the user index of the receiver", "uidx := q.UIDX", "TestFastPathAgrees"},
	{"a SEND raises no event", "attention := object.Event", "TestFastPathAgrees"},
	{"FETCH_ADD adds its operand", "old = shm.Add(far, operand+1)", "TestFastPathAgrees"},
	{"the old value is in the order of the host", "binary.BigEndian.PutUint64(near, old)", "TestFastPathAgrees"},
	{"the remote key of an atomic is one of the peer", "remote.Client != p.Client ||", "TestFastPathAgrees"},
	{"the remote key allows atomics", "remote.Access == 0 {", "TestFastPathAgrees"},
	{"the result goes to memory of the domain", "", "TestFastPathAgrees"},
	{"CMP_SWAP compares", "old, ok = shm.CompareAndSwap(far, operand, b.Word(wqe.WordCompare))", "TestFastPathAgrees"},
	{"completions of the fast path raise no event", "object.Event) {", "TestFastPathAgrees"},
	{"only signaled WQEs complete", "if h.Second.CE() == wqe.CEEvent {", "TestFastPathAgrees"},
	{"bytes are counted", "c.Count[control.CounterBytes] += bytes + 1", "TestFastPathAgrees"},
	{"a wrong index is explained", "true)", "TestFastPathAgrees"},
	{"WQEs of a series are alike", "if wqe.Unlike(h.First&^(0xff<<32), first&^(0xff<<32), h.Second, d, data, same) != 0 {", "TestFastPathAgrees"},
	{"a series stays in the remote memory", "", "TestFastPathAgrees"},
	{"a series has one remote key", "", "TestFastPathAgrees"},
	{"a series stays in the local memory", "", "TestFastPathAgrees"},
	{"the receives of a series are alike", "if shm.BE64At(p.RQ.Ring, entry).Observe()>>32 != piece>>32 {", "TestFastPathAgrees"},
	{"all of a receive is memory of its key", "farLast := uint64(len(m.remote.Mem)) - n", "TestFastPathAgrees"},
	{"the receives of a series are counted", "", "TestFastPathAgrees"},
	{"only signaled WQEs of a series complete", "for left := uint64(1)<<n - 1; left != 0; {", "TestFastPathAgrees"},
	{"the READs of a series report their bytes", "bytes = 0", "TestFastPathAgrees"},
	{"a series begins at its place", "", "TestFastPathAgrees"},
	{"both halves of a payload are moved", "head, tail := src.Load(0), src.Load(0)", "TestFastPathAgrees"},
}

// plantedBeside are changes of functions that the fast path uses.
var plantedBeside = []plantedChange{
	{"series: in a queue that is armed", "internal/object/cq.go", " && !q.Armed }", " }", "TestFastPathAgrees"},
	{"the register: executed twice", "internal/execution/blueflame.go", "q.SQ.Ahead++", "q.SQ.Ahead++; q.SQ.Done--", "TestFastPathAgrees"},
	{"cold ports are never polled", "internal/transport/serve.go", "if !p.Hot && !cold || !p.Up {", "if !p.Hot || !p.Up {", "TestColdPorts"},
	{"cold ports are not polled before a nap", "internal/loop/active.go", "\tfound += sh.ServeColdPorts()\n", "", "TestColdPorts"},
	{"a port that sends stays cold", "internal/object/port.go", "\tp.Idle = 0\n\tif !p.Hot {\n\t\tp.SetHot(true)\n\t}\n", "", "TestColdPorts"},
	{"a port that is closed stays hot", "internal/object/port.go", "\tp.SetHot(false)\n\tp.Shard.Ports =", "\tp.Shard.Ports =", "TestColdPorts"},
}
