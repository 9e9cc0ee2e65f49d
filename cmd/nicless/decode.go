package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/nicless/nicless/field"
	"github.com/nicless/nicless/field/report"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

const decodeUsage = `Explains the bytes of WQEs, CQEs, doorbells, packets and firmware commands: each
field with its offset, bytes, name, value and meaning.

Usage:
  nicless decode [FILE...|TEXT|-] [flags]
  nicless decode KIND [HEX...|-] [flags]

Without a kind, it reads a log or a dump of any length and finds the objects in
it. It knows what the kernel, libmlx5, UCX, NVSHMEM, DOCA, NCCL, DPDK, libxlio,
perftest, rdma-core and libfabric print, and dumps of xxd, hexdump, od, gdb and
tcpdump -x. For each failure, it prints what syndrome and vendor byte are known
to mean, probable causes in order, and how sure that is. It counts repetitions.

With a kind, HEX is the bytes in memory order, as hexadecimal digits; spaces,
newlines, colons, commas and 0x are allowed between bytes. "-", or no argument,
stands for standard input.

Kinds:
  send       a send WQE, from its control segment on   16 to 1024 bytes
  recv       an entry of a receive queue               its stride: 16, 32, 64, …
  srq        an entry of a shared receive queue        its stride: 32, 64, …
  cqe        a completion                              64 bytes
  cqe128     a completion of a CQ of 128-byte entries  128 bytes
  qp-dbrec   doorbell record of a QP, or one word      8 or 4 bytes
  srq-dbrec  doorbell record of an SRQ                 4 bytes
  cq-dbrec   doorbell record of a CQ, or first word    8 or 4 bytes
  cq-arm     CQ arm register, or ARM word + register   8 or 12 bytes
  uar        value written to a doorbell register      8 bytes
  bf         bytes written to a BlueFlame register     64, 128, 192 or 256 bytes
  packet     a packet of RoCEv2, from its BTH to its   from 16 bytes
             ICRC, or from its IP header on; with the
             IP header, the ICRC is checked
  devx-in    a firmware command, as DEVX passes it     from 16 bytes
  devx-out   the answer of one, which --command names  from 16 bytes
A single word of a record has an index: qp-dbrec[0], qp-dbrec[1], srq-dbrec[0],
cq-dbrec[0], cq-dbrec[1].

Flags:
  --all            print repetitions, too; without a kind only
  --command NAME   the command that devx-out answers: CREATE_QP, or 0x500
  --json           print one JSON object; without a kind, one for each object, a
                   line each. Names are those of the golden vectors (qp_dbrec)
  --qp-type TYPE   the type of the queue of a send WQE, which decides about its
                   address segment: rc, uc, ud, dc, xrc, eth, ud-eth, or auto,
                   which guesses it from the bytes (default: auto)

The exit status is 2 if the command line is wrong, and 1 if the bytes are wrong
or nothing was found.

Example:
  dmesg | nicless decode
  nicless decode qp-dbrec 0000000300000007
  nicless decode send --qp-type rc < wqe.hex
  nicless decode packet 1100ffff000000180085214b 2e000000 8b42696d
  nicless decode devx-in 050b0000000000000000010000000000
`

func newDecode() *cobra.Command {
	var asJSON, all bool
	var qpType, command string
	c := &cobra.Command{
		Use:   "decode [FILE...|TEXT|-] | decode KIND [HEX...|-]",
		Short: "explain the bytes of WQEs, CQEs, doorbells, packets and firmware commands, and logs of failures",
		Long:  decodeUsage,
		Args:  cobra.ArbitraryArgs,
		ValidArgsFunction: func(
			_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return kindNames(), cobra.ShellCompDirectiveDefault
		},
		RunE: func(c *cobra.Command, args []string) error {
			address, err := findQPType(qpType)
			k, known := isKind(args)
			answerOf, commandErr := findCommand(k, command)
			switch {
			case !known && commandErr != nil:
				return commandErr
			case err == nil && !known:
				return decodeText(c, args, report.Options{Address: address, All: all, JSON: asJSON})
			case err != nil:
				return err
			case all:
				return usagef("nicless decode FILE --all", "decode: --all is for logs, without a kind")
			case commandErr != nil:
				return commandErr
			}
			b, err := inputBytes(args[1:], c.InOrStdin())
			if err != nil && len(args) == 2 && isFile(args[1]) {
				return hintf("a kind takes HEX, or standard input: nicless decode "+k.name+" < "+plain(args[1]), "%w", err)
			}
			if err != nil {
				return err
			}
			t, err := k.describe(b, about{address, answerOf})
			if err == nil || t != nil && !asJSON { // text shows the fields that could be read
				err = errors.Join(show(c.OutOrStdout(), t, b, asJSON), err)
			}
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "one JSON object")
	c.Flags().BoolVar(&all, "all", false, "print repetitions, too")
	c.Flags().StringVar(&command, "command", "", "the firmware command that devx-out answers")
	_ = c.RegisterFlagCompletionFunc("command",
		cobra.FixedCompletions(commandNames(), cobra.ShellCompDirectiveNoFileComp))
	c.Flags().StringVar(&qpType, "qp-type", "auto", "type of the queue of a send WQE")
	_ = c.RegisterFlagCompletionFunc("qp-type",
		cobra.FixedCompletions(qpTypeNames(), cobra.ShellCompDirectiveNoFileComp))
	return c
}

// inputBytes returns the bytes in the arguments, or those of standard input if there is no
// argument or only "-".
func inputBytes(args []string, stdin io.Reader) ([]byte, error) {
	text := strings.Join(args, " ")
	if len(args) == 0 || len(args) == 1 && args[0] == "-" {
		if f, ok := stdin.(*os.File); ok && len(args) == 0 && term.IsTerminal(int(f.Fd())) {
			return nil, usagef("give them as arguments, or \"-\" to type them", "decode: no bytes to decode")
		}
		var err error
		if text, err = readInput(stdin, "with a kind, one object is decoded; without, logs of any length: nicless decode < FILE"); err != nil {
			return nil, err
		}
	}
	return parseHex(text)
}

func show(w io.Writer, t field.Tree, b []byte, asJSON bool) error {
	if !asJSON {
		return t.Print(w, b)
	}
	text, err := json.Marshal(t)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", text)
	return err
}
