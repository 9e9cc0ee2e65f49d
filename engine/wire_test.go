package engine

import (
	"flag"
	"fmt"
	"maps"
	"testing"

	"github.com/nicless/nicless/internal/explore"
	"github.com/nicless/nicless/internal/nic"
)

// Tests of operations within one engine. They pass too if the queue pairs are connected over a link.
var testsOverLinks = map[string]func(*testing.T){
	"Operations": TestOperations, "Pieces": TestPieces, "Inline": TestInline, "InlineBetweenPointers": TestInlineBetweenPointers,
	"ZeroLength": TestZeroLength, "WriteImmIgnoresReceiveList": TestWriteImmIgnoresReceiveList, "ByteCountZero": TestByteCountZero,
	"CompletionModes": TestCompletionModes, "OrderWithinAQueue": TestOrderWithinAQueue, "Wrap": TestWrap,
	"Atomics":                        TestAtomics,
	"AtomicWithoutPlaceForItsResult": TestAtomicWithoutPlaceForItsResult,
	"SRQFollowsLinks":                TestSRQFollowsLinks, "SRQWriteImm": TestSRQWriteImm, "SRQLimit": TestSRQLimit,
	"UnreliableConnection": TestUnreliableConnection, "SendInval": TestSendInval,
	"List": TestList, "Interleaved": TestInterleaved, "InlineMessages": TestInlineMessages,
}

var everyOperation = flag.Bool("links", false, "TestOverAPool, TestOverRoCE, TestOverUCX: run all tests of operations")

// overCarriers returns the tests that run over links of carriers. Links are opened for each queue
// pair of a test, which takes a tenth of a second, so tests with many queue pairs run only with -links.
func overCarriers() map[string]func(*testing.T) {
	tests := maps.Clone(testsOverLinks)
	if !*everyOperation {
		for _, name := range []string{
			"Wrap", "List", "Inline", "Pieces", "SRQFollowsLinks", "CompletionModes", "SendInval", "Interleaved",
			"InlineMessages", "InlineBetweenPointers", "SRQLimit",
		} {
			delete(tests, name)
		}
	}
	return tests
}

func TestOverALink(t *testing.T) {
	for _, mtu := range []int{256, 16 << 10, 1024}[:explore.Rounds(2, 3)] {
		overCable = func(r *rig) *cable { return r.newCable(nic.PortConfig{MTU: mtu, Jumbo: true}, nil) }
		defer func() { overCable = nil }()
		for name, test := range testsOverLinks {
			t.Run(fmt.Sprintf("%s, MTU %d", name, mtu), test)
		}
	}
}

// The same with a cable that loses, repeats and reorders packets.
func TestOverABadLink(t *testing.T) {
	overBadLinks(t, nic.PortConfig{MTU: 256, Window: 8 << 10})
}

func overBadLinks(t *testing.T, cfg nic.PortConfig) {
	for seed := range uint64(explore.Rounds(1, 4)) {
		f := &fates{seed: seed, lose: 0.05, repeat: 0.05, reorder: 0.05}
		overCable = func(r *rig) *cable { return r.newCable(cfg, f) }
		defer func() { overCable = nil }()
		for name, test := range testsOverLinks {
			if name == "UnreliableConnection" || name == "InlineMessages" {
				continue // messages of unreliable connections are lost
			}
			t.Run(fmt.Sprintf("%s, seed %d", name, seed), test)
		}
	}
}

// The faults of every kind have the same outcome over cables that lose, repeat and reorder packets, and that
// stop to carry packets now and then.
func TestFaultsOverABadLink(t *testing.T) {
	faultsOverBadLinks(t, nic.PortConfig{MTU: 256, Jumbo: true, Window: 4 << 10})
}

func faultsOverBadLinks(t *testing.T, cfg nic.PortConfig) {
	for seed := range uint64(explore.Rounds(1, 3)) {
		f := &fates{seed: seed, lose: 0.08, repeat: 0.08, reorder: 0.08, stall: 0.3}
		overCable = func(r *rig) *cable {
			c := r.newCable(cfg, f)
			c.limit = 12
			return c
		}
		defer func() { overCable = nil }()
		for _, f := range mistakes() {
			if f.name == "peer connected to another" {
				continue // see TestFaultsOverALink
			}
			t.Run(fmt.Sprintf("%s, seed %d", f.name, seed), func(t *testing.T) { f.run(newScene(t, Config{})) })
		}
	}
}

// The same as TestOverABadLink and TestFaultsOverABadLink, with ends that agree on reports.
func TestOverALossyLink(t *testing.T) {
	overBadLinks(t, nic.PortConfig{MTU: 256, Window: 8 << 10, Loses: true})
}

func TestFaultsOverALossyLink(t *testing.T) {
	faultsOverBadLinks(t, nic.PortConfig{MTU: 256, Jumbo: true, Window: 4 << 10, Loses: true})
}

// The faults of every kind, and operations of other transports, over a link.
func TestFaultsOverALink(t *testing.T) {
	overCable = func(r *rig) *cable { return r.newCable(nic.PortConfig{MTU: 256, Jumbo: true}, nil) }
	defer func() { overCable = nil }()
	for _, f := range mistakes() {
		if f.name == "peer connected to another" {
			continue // packets do not say from which queue pair they come, only to which they go
		}
		t.Run(f.name, func(t *testing.T) { f.run(newScene(t, Config{})) })
		t.Run(f.name+", in slices", func(t *testing.T) { f.run(newScene(t, Config{Slice: 64, Burst: 1})) })
	}
	for name, test := range map[string]func(*testing.T){
		"XRCOperations": TestXRCOperations, "XRCFaults": TestXRCFaults, "XRCSeveralSRQs": TestXRCSeveralSRQs,
		"SRQFault": TestSRQFault, "SRQHostile": TestSRQHostile, "HoleInProcessMemory": TestHoleInProcessMemory,
		"Window": TestWindow, "SendInvalFaults": TestSendInvalFaults, "WindowRights": TestWindowRights, "ListFaults": TestListFaults, "DeathAtAnyPoint": TestDeathAtAnyPoint,
	} {
		t.Run(name, test)
	}
}

// The operations in memory of a process, which the device has not mapped, over a link.
func TestProcessMemoryOverALink(t *testing.T) {
	overCable = func(r *rig) *cable { return r.newCable(nic.PortConfig{MTU: 1024, Jumbo: true}, nil) }
	keysAway = true
	defer func() { overCable, keysAway = nil, false }()
	for name, test := range testsOverLinks {
		t.Run(name, test)
	}
}
