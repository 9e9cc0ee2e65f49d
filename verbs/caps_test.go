package verbs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/field/devx"
	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// A proof shows that a capability is true: run uses the object behind it, up to the value v and one more, or
// tests of other packages do, which are named as folder.Test.
type proof struct {
	run   func(m *maker, v int)
	tests string
}

// proofs has every capability that a context claims.
var proofs = map[*devx.Field]proof{
	devx.CapHCACap2: {run: func(m *maker, _ int) { m.ok(m.general(queryCaps(devx.CapsGeneral2, 1), 4112)) }},
	devx.CapVHCAID:  {run: func(m *maker, v int) { require.EqualValues(m, m.context().device.index+1, v) }},

	// Objects.
	devx.CapLogMaxQP:        {run: manyQPs},
	devx.CapLogMaxCQ:        {run: manyCQs},
	devx.CapLogMaxSRQ:       {run: manyRMPs}, // to the engine, an RMP is an SRQ
	devx.CapLogMaxRMP:       {run: manyRMPs},
	devx.CapFixedBufferSize: {tests: "verbs.TestListOfEqualParts verbs/programs.TestUCXMatrix"},
	devx.CapLogMaxPD:        {run: manyDomains},
	devx.CapLogMaxMkey:      {tests: "engine.TestKeyLimit"},
	devx.CapLogMaxQPSize: {run: func(m *maker, v int) {
		ring, _ := m.umem(64 << v)
		_, cqn := m.made(m.cqCommand(), devx.NewCQN)
		m.most(m.qpCommand(cqn, devx.QPUmem, ring, devx.QPUmemOffset, 0), devx.QPLogSQ, v)
	}},
	devx.CapLogMaxSRQSize: {run: func(m *maker, v int) {
		ring, _ := m.umem(32 << v)
		m.most(m.rmpCommand(devx.WQUmem, ring, devx.WQUmemOffset, 0), devx.WQLogSize, v)
	}},
	devx.CapLogMaxCQSize: {run: func(m *maker, v int) { m.most(m.cqCommand(devx.CQCollapsed, 1), devx.CQLogSize, v) }},
	devx.CapDCT:          {run: oneDCT, tests: "engine.TestDCOperations verbs/programs.TestDC"},
	devx.CapCQOI: {run: func(m *maker, _ int) { m.made(m.cqCommand(devx.CQIgnore, 1), devx.NewCQN) },
		tests: "engine.TestIgnoreOverrun"},
	devx.CapGeneralObjTypes:        {run: generalObjects},
	devx.CapQPCExtension:           {tests: "verbs.TestDCI"},
	devx.CapCompactAddressVector:   {tests: "engine.TestCompactDatagram engine.TestDCOnInfiniBand verbs/programs.TestInfiniBandUCXByDEVX"},
	devx.CapRTS2RTSQPUDPSport:      {tests: "verbs.TestUDPSourcePort"},
	devx.CapCQResize:               {tests: "engine.TestResize"},
	devx.CapWQSignature:            {tests: "engine.TestSignature engine.TestReceiveWithSignature"},
	devx.CapRC:                     {tests: "engine.TestOperations"},
	devx.CapUC:                     {tests: "engine.TestUnreliableConnection"},
	devx.CapUD:                     {tests: "engine.TestDatagram"},
	devx.CapLogMaxMsg:              {tests: "engine.TestMessageTooLong"},
	devx.CapCQEVersion:             {tests: "engine.TestCompletionBytes"},
	devx.CapDumpFillMkey:           {tests: "engine.TestDump"},
	devx.CapDMAMMOSQ:               {tests: "engine.TestMMO"},
	devx.CapLogDMAMMOMaxSize:       {tests: "engine.TestMMO"}, // a limit of programs: there is none here
	devx.CapLogMaxRaReqQP:          {run: readsOut},
	devx.CapLogMaxRaResQP:          {run: readsIn},
	devx.CapLogMaxRaReqDC:          {tests: "engine.TestAttributeLimits engine.TestDCOperations"},
	devx.CapLogMaxRaResDC:          {tests: "engine.TestAttributeLimits engine.TestDCOperations"},
	devx.CapMiniCQERespStrideIndex: {tests: "engine.TestCompressedReceives"},
	devx.CapCQECompression:         {tests: "engine.TestCompressedAgrees"},
	devx.CapCQECompression128:      {tests: "engine.TestCompressedAgrees"},
	devx.CapCQECompressionMaxNum:   {tests: "engine.TestCompressedRuns"},
	devx.CapMaxWQESizeSQ: {run: func(m *maker, v int) { require.Equal(m, wqe.MaxBlocks*wqe.BlockSize, v) },
		tests: "engine.TestBadSizes"},
	devx.CapMaxWQESizeRQ: {tests: "engine.TestLongestReceiveList"},

	// Keys.
	devx.CapMaxIndirection:          {tests: "engine.TestListFaults"},
	devx.CapLogMaxKLMListSize:       {run: lists, tests: "engine.TestList"},
	devx.CapLogMaxMRWSize:           {run: func(m *maker, v int) { require.EqualValues(m, maxExtent, 1<<v) }, tests: "verbs.TestUmemMistakes"},
	devx.CapUMRModifyAtomicDisabled: {tests: "engine.TestAtomicThroughAList"}, // says less than is true

	// Registers.
	devx.CapBF: {tests: "engine.TestFlame"},
	devx.CapLogBFRegSize: {run: func(m *maker, v int) {
		require.Equal(m, doorbell.BFRegSize, 1<<v)
		require.Equal(m, 2*doorbell.BFHalf, 1<<v, "two halves, either of which may be rung")
		require.LessOrEqual(m, 0xa00+1<<v, doorbell.UARPageSize, "from the second register of a page on")
	}, tests: "engine.TestFlame engine.TestRegisterStartsWork"},
	devx.CapUAR4K:            {run: func(m *maker, _ int) { require.Equal(m, 4096, doorbell.UARPageSize) }},
	devx.CapLogPageSize:      {run: func(m *maker, v int) { require.Equal(m, pageSize, 1<<v) }},
	devx.CapLogUARPageSize:   {run: func(m *maker, v int) { require.Equal(m, doorbell.UARPageSize, 1<<v) }},
	devx.CapNumOfUARsPerPage: {tests: "verbs.TestUARPagesAreNotShared"},

	// The port.
	devx.CapGIDTableSize:         {run: func(m *maker, v int) { gids(m, 8<<v) }},
	devx.CapRoCEAddressTableSize: {run: gids},
	devx.CapRoCE:                 {tests: "verbs.TestGeneralCommands engine.TestOverRoCE"},
	devx.CapPKeyTableSize:        {run: func(m *maker, v int) { require.Equal(m, maxPKeys, 128<<v) }},
	devx.CapPortType:             {tests: "verbs.TestGeneralCommandsOfInfiniBand"},
	devx.CapNumPorts:             {run: ports},
	devx.CapLocalCAAckDelay: {run: func(m *maker, v int) {
		require.EqualValues(m, m.context().attributes()[abi.QueryDeviceRespLocalCaAckDelay], v)
	}},
	devx.CapDeviceFrequencyKHz: {tests: "verbs/programs.TestClock"},
	devx.CapRRoCEMinSrcUDPPort: {run: sourcePort},
	devx.CapRRoCEMaxSrcUDPPort: {run: sourcePort},

	// Atomics.
	devx.CapAtomic:             {tests: "engine.TestAtomics"},
	devx.CapLogMaxAtomicSizeQP: {tests: "engine.TestAtomics"},
	devx.CapAtomicByteOrder:    {tests: "engine.TestAtomics verbs/programs.TestUCXMatrix"},
	devx.CapAtomicHostOrder:    {tests: "engine.TestAtomics verbs/programs.TestUCXMatrix"},
	devx.CapAtomicOperations:   {tests: "engine.TestAtomics engine.TestMaskedAdd"},
	devx.CapAtomicSizeQP:       {tests: "engine.TestAtomics"},
	devx.CapAtomicSizeDC:       {tests: "engine.TestDCOperations"},

	// Memory.
	devx.CapDeviceMemory:             {tests: "verbs.TestDeviceMemory verbs/programs.TestDM"},
	devx.CapMemic:                    {tests: "verbs.TestDeviceMemory"},
	devx.CapLogMaxMemicAddrAlignment: {tests: "verbs.TestDeviceMemory"},
	devx.CapMemicBarSize:             {tests: "verbs.TestDeviceMemory"},
	devx.CapMaxMemicSize:             {tests: "verbs.TestDeviceMemory"},
	devx.CapRCODPCaps:                {tests: "verbs.TestMemoryOnDemand engine.TestProcessMemory"},
	devx.CapUCODPCaps:                {tests: "verbs.TestMemoryOnDemand engine.TestProcessMemory"},
	devx.CapUDODPCaps:                {tests: "verbs.TestMemoryOnDemand engine.TestProcessMemory"},
	devx.CapXRCODPCaps:               {tests: "verbs.TestMemoryOnDemand engine.TestProcessMemory"},
	devx.CapDCODPCaps:                {tests: "verbs.TestMemoryOnDemand engine.TestProcessMemory"},
}

// Every capability that a context claims has a proof, and every proof is of one that is claimed.
func TestCapabilitiesAreTrue(t *testing.T) {
	claimed := make(map[*devx.Field]bool)
	exists := testsOf(t)
	x := newMaker(t).context()
	for group := range uint16(capGroups) {
		for _, c := range x.capabilities(group) {
			claimed[c.Field] = true
			require.Contains(t, devx.Capabilities(group).Fields, c.Field, "%s in group %#x", c.Name, group)
			require.LessOrEqual(t, uint64(c.value), c.Most(), "%s fits into its bits", c.Name)
			p := proofs[c.Field]
			if p.run == nil && p.tests == "" {
				t.Errorf("nothing proves the capability %s", c.Name)
			}
			for _, name := range strings.Fields(p.tests) {
				if !exists[name] {
					t.Errorf("%s, which proves %s, does not exist", name, c.Name)
				}
			}
			if p.run != nil {
				t.Run(c.Name, func(t *testing.T) { p.run(newMaker(t), int(c.value)) })
			}
		}
	}
	for f := range proofs {
		require.True(t, claimed[f], "%s is not claimed", f.Name)
	}
}

// A context without DEVX claims what one with DEVX does, but for objects that only firmware commands make.
func TestCapabilitiesWithoutDEVX(t *testing.T) {
	m := newMaker(t)
	only := map[*devx.Field]bool{devx.CapLogMaxRMP: true, devx.CapFixedBufferSize: true}
	for group := range uint16(capGroups) {
		m.context().devx = true
		with := m.context().capabilities(group)
		m.context().devx = false
		without := make(map[*devx.Field]uint32)
		for _, c := range m.context().capabilities(group) {
			without[c.Field] = c.value
		}
		for _, c := range with {
			v, ok := without[c.Field]
			require.Equal(t, !only[c.Field], ok, c.Name)
			require.True(t, !ok || v == c.value, c.Name)
		}
	}
}

// testsOf returns the tests of the packages that proofs name, as folder.Test.
func testsOf(t *testing.T) map[string]bool {
	t.Helper()
	found := make(map[string]bool)
	for _, folder := range []string{"engine", "verbs", "verbs/programs"} {
		files, err := filepath.Glob("../" + folder + "/*_test.go")
		require.NoError(t, err)
		for _, name := range files {
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
					found[folder+"."+fn.Name.Name] = true
				}
			}
		}
	}
	return found
}
