package devx

import "fmt"

// A Command is one kind of firmware command.
type Command struct {
	Op   uint16
	Name string // that of mlx5_ifc.h
	Text string // what it does

	InSize, OutSize int      // the least bytes of the command and of its answer
	In, Out         []*Group // their fields; those behind a shorter mailbox's end are 0
}

// Numbers of commands (MLX5_CMD_OP_*).
const (
	OpQueryHCACap          = 0x100
	OpQueryAdapter         = 0x101
	OpQueryISSI            = 0x10a
	OpCreateMkey           = 0x200
	OpCreateCQ             = 0x400
	OpCreateQP             = 0x500
	OpRST2INIT             = 0x502
	OpINIT2RTR             = 0x503
	OpRTR2RTS              = 0x504
	OpRTS2RTS              = 0x505
	OpSQERR2RTS            = 0x506
	Op2ERR                 = 0x507
	Op2RST                 = 0x50a
	OpQueryQP              = 0x50b
	OpINIT2INIT            = 0x50e
	OpCreateDCT            = 0x710
	OpDrainDCT             = 0x712
	OpQueryVportState      = 0x750
	OpQueryESWVportContext = 0x752
	OpQueryNICVportContext = 0x754
	OpQueryRoCEAddress     = 0x760
	OpQueryHCAVportContext = 0x762
	OpQueryVNICEnv         = 0x76f
	OpQueryVportCounter    = 0x770
	OpGetDroppedPacketLog  = 0x80a
	OpNop                  = 0x80d
	OpQueryCongStatus      = 0x822
	OpQueryCongParams      = 0x824
	OpQueryCongStatistics  = 0x826
	OpQueryLAG             = 0x842
	OpCreateRMP            = 0x90c
	OpCreateGeneralObject  = 0xa00
)

// Lengths of mailboxes, in bytes.
const (
	HeadSize    = 16 // the shortest command, and the shortest answer
	contextSize = 272
	dctSize     = 128 // of the kernel's header; UCX passes 176
)

// Groups that several commands have.
var (
	head   = []*Group{in, inMod}
	status = []*Group{out}
	about  = []*Group{in, inMod, inQPN}              // a queue pair
	move   = []*Group{in, inMod, inQPN, inMask, qpc} // to another state
	change = append(move[:len(move):len(move)], inExtension, qpMore, qpcExtension)
	moved  = []*Group{out, outECE}
	object = []*Group{in, inObject}
)

// commands has every command that is known, in the order of their numbers.
var commands = []*Command{
	{OpQueryHCACap, "QUERY_HCA_CAP", "answers a group of capabilities",
		HeadSize, HeadSize + leastCaps, []*Group{in, inCap}, status},
	{OpQueryAdapter, "QUERY_ADAPTER", "answers the vendor and the board",
		HeadSize, contextSize, head, []*Group{out, outAdapter}},
	{OpQueryISSI, "QUERY_ISSI", "answers the version of the interface",
		HeadSize, 112, head, []*Group{out, outISSI}},
	{OpCreateMkey, "CREATE_MKEY", "makes a memory key",
		contextSize, HeadSize, []*Group{in, inMod, mkc, keyList}, []*Group{out, outMkey}},
	{OpCreateCQ, "CREATE_CQ", "makes a completion queue",
		contextSize, HeadSize, []*Group{in, inMod, cqc, cqMemory}, []*Group{out, outCQN}},
	{OpCreateQP, "CREATE_QP", "makes a queue pair",
		contextSize, HeadSize,
		[]*Group{in, inMod, inNewQPN, inMask, qpc, qpMemory}, []*Group{out, outQPN, outECE}},
	{OpRST2INIT, "RST2INIT_QP", "takes a queue pair from RST to INIT", contextSize, HeadSize, move, moved},
	{OpINIT2RTR, "INIT2RTR_QP", "takes a queue pair from INIT to RTR", contextSize, HeadSize, move, moved},
	{OpRTR2RTS, "RTR2RTS_QP", "takes a queue pair from RTR to RTS", contextSize, HeadSize, move, moved},
	{OpRTS2RTS, "RTS2RTS_QP", "changes a queue pair in RTS", contextSize, HeadSize, change, moved},
	{OpSQERR2RTS, "SQERR2RTS_QP", "takes a queue pair from SQE to RTS", contextSize, HeadSize, move, moved},
	{Op2ERR, "2ERR_QP", "takes a queue pair to ERR", HeadSize, HeadSize, about, status},
	{Op2RST, "2RST_QP", "takes a queue pair to RST", HeadSize, HeadSize, about, status},
	{OpQueryQP, "QUERY_QP", "answers the context of a queue pair",
		HeadSize, contextSize, about, []*Group{out, outMask, qpc}},
	{OpINIT2INIT, "INIT2INIT_QP", "changes a queue pair in INIT", contextSize, HeadSize, change, moved},
	{OpCreateDCT, "CREATE_DCT", "makes a dynamically connected target",
		dctSize, HeadSize, []*Group{in, inMod, dctc}, []*Group{out, outDCTN, outECE}},
	{OpDrainDCT, "DRAIN_DCT", "lets a DCT accept nothing new",
		HeadSize, HeadSize, []*Group{in, inMod, inDCTN}, status},
	{OpQueryVportState, "QUERY_VPORT_STATE", "answers the state of a port",
		HeadSize, HeadSize, []*Group{in, inMod, inVport}, []*Group{out, outVport}},
	{OpQueryRoCEAddress, "QUERY_ROCE_ADDRESS", "answers an entry of the GID table",
		HeadSize, 48, []*Group{in, inMod, inRoCE}, []*Group{out, outRoCE}},
	{OpNop, "NOP", "does nothing", HeadSize, HeadSize, head, status},
	{OpQueryLAG, "QUERY_LAG", "answers how ports are joined",
		HeadSize, HeadSize, head, []*Group{out, outLAG}},
	{OpCreateRMP, "CREATE_RMP", "makes a receive queue that queue pairs share",
		contextSize, HeadSize, []*Group{in, inMod, rmpc, wq}, []*Group{out, outRMPN}},
	{OpCreateGeneralObject, "CREATE_GENERAL_OBJECT", "makes an object of a type that is named by number",
		HeadSize, HeadSize, object, []*Group{out, outObject}},
}

// Commands returns every command that is known, in the order of their numbers. The caller does not change
// them.
func Commands() []*Command { return commands }

// Find returns the command with a number, nil if it is unknown.
func Find(op uint16) *Command {
	for _, c := range commands {
		if c.Op == op {
			return c
		}
	}
	return nil
}

// Name names a command: "CREATE_QP (0x500)", or its number alone: "firmware command 0xfff". It knows the
// names of more commands than Find.
func Name(op uint16) string {
	if c := Find(op); c != nil {
		return fmt.Sprintf("%s (%#x)", c.Name, op)
	}
	if name := otherNames[op]; name != "" {
		return fmt.Sprintf("%s (%#x)", name, op)
	}
	return fmt.Sprintf("firmware command %#x", op)
}

var opcodeNames = make(map[uint64]string)

func init() {
	for _, c := range commands {
		opcodeNames[uint64(c.Op)] = c.Name
	}
	for op, name := range otherNames {
		opcodeNames[uint64(op)] = name
	}
}
