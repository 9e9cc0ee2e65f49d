package devx

// Names of values that fields have.
var (
	cqEntrySizeNames = map[uint64]string{
		0: "64",
		1: "128",
		2: "128, with padding",
	}
	cqPeriodModeNames = map[uint64]string{
		0: "an event",
		1: "a completion",
	}
	cqMiniFormatNames = map[uint64]string{
		0: "hash",
		1: "checksum",
		3: "checksum and stride",
	}
	cqStateNames = map[uint64]string{
		6:   "solicited armed",
		9:   "armed",
		0xa: "fired",
	}
	cqLayoutNames = map[uint64]string{
		0: "basic",
		1: "enhanced",
	}
	paddingNames = map[uint64]string{
		0: "none",
		1: "to whole cache lines",
	}
	qpPathStateNames = map[uint64]string{
		0: "armed",
		1: "rearm",
		3: "migrated",
	}
	mtuNames = map[uint64]string{
		1: "256 bytes",
		2: "512 bytes",
		3: "1024 bytes",
		4: "2048 bytes",
		5: "4096 bytes",
		7: "raw Ethernet",
	}
	qpTimestampNames = map[uint64]string{
		0: "free running",
		1: "the default",
		2: "real time",
	}
	qpDoorbellNames = map[uint64]string{
		0: "record and register",
		1: "register alone, rung from outside",
		2: "register alone, rung from inside",
	}
	qpAtomicModeNames = map[uint64]string{
		0: "none",
		1: "of the InfiniBand specification",
		2: "only compare and swap of 8 bytes",
		3: "up to 8 bytes",
	}
	qpRQTypeNames = map[uint64]string{
		0: "in a receive queue of its own",
		1: "in an SRQ or RMP",
		2: "in an SRQ without user index",
		3: "there are none",
	}
	wqTypeNames = map[uint64]string{
		WQLinked: "by the link in each",
		WQCyclic: "in the order of the ring",
	}
	dctStateNames = map[uint64]string{
		0: "active",
		1: "draining",
		2: "drained",
	}
	keyModeNames = map[uint64]string{
		ModePA:  "physical",
		ModeMTT: "pages",
		ModeKLM: "list (KLM)",
		ModeKSM: "list of equal parts (KSM)",
	}
)
