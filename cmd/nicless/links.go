//go:build linux && (amd64 || arm64)

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/fabric"
	"github.com/nicless/nicless/fabric/links"
	"github.com/nicless/nicless/internal/unixsock"
	"github.com/spf13/cobra"
)

const linksUsage = `Prints the links of an engine to other engines and hosts: a summary of each,
and for each peer the state, the MTU, the packets sent and received, those sent
again, and, if the link opened by itself or is down, why. Peers with trouble
come first; of more than 16 peers the others are only counted. Below are packets
that no good peer sends, such as those of somebody who tries packet numbers
(PSNs) or keys. For RoCE, also what was dropped: packets of peers, and of
strangers, which are addresses that nobody here has asked for. On links with
keys a column says which key each peer has, since when, and whether packets are
encrypted. Nodes that have not joined a pool share a row. The network interfaces
of "nicless net up" are printed too, with their peers and counts, or that they
do not answer.

--all asks all these engines what they do, and prints them as one device: what
their programs have, rates of half a second, and trouble, the worst first. Root
and the engine's user see the programs too, where nicless engine --disclose says
so.

Usage:
  nicless links [--engine PATH] [--all] [--all-peers] [--rates TIME | --json]

Flags:
  --engine PATH   socket of the engine (default: that of nicless run; in its
                  programs, also with --private, the one that they use)
  --all           print what the engine and all others on its links do
  --all-peers     print all peers, also of a link with more than 16
  --rates TIME    measure for so long, and print packets of a second too
  --json          print JSON, with all peers

Example:
  nicless links
  nicless links --rates 1s
  nicless links --all
  nicless links --engine $XDG_RUNTIME_DIR/nicless.sock --json
`

func newLinks() *cobra.Command {
	var socket string
	var asJSON, fabric bool
	var table linkTable
	var over time.Duration
	c := &cobra.Command{
		Use:   "links",
		Short: "print the links of an engine to other engines and hosts",
		Long:  linksUsage,
		Args:  noArguments,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if socket == "" {
				if socket, err = defaultSocket(); err != nil {
					return err
				}
			}
			if fabric {
				if over != 0 {
					return usagef("leave one of them out", "links: --all has rates; --all and --rates exclude each other")
				}
				return printFabric(c.Context(), c.OutOrStdout(), socket, asJSON, table.all)
			}
			return printLinks(c.Context(), c.OutOrStdout(), socket, asJSON, table, over)
		},
	}
	c.Flags().StringVar(&socket, "engine", "", "socket of the engine")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().BoolVar(&fabric, "all", false, "print what all engines do")
	c.Flags().BoolVar(&table.all, "all-peers", false, "print all peers of a link")
	c.Flags().DurationVar(&over, "rates", 0, "print rates, measured for so long")
	_ = c.MarkFlagFilename("engine")
	return c
}

// queryLinks returns what an engine and the interfaces over its links report.
func queryLinks(socket string) (list []links.Report, err error) {
	if err := unixsock.Query(socket+nicless.LinksSuffix, startTime, &list); err != nil {
		if errors.Is(err, fs.ErrPermission) {
			return nil, hintf("its owner decides who may connect: nicless engine --mode", "links: %w", err)
		}
		if errors.As(err, new(*net.OpError)) {
			return nil, hintf("name the engine's socket: nicless links --engine PATH", "links: no engine at %s: %w", socket, err)
		}
		return nil, fmt.Errorf("links: answer of the engine at %s: %w", socket, err)
	}
	return append(list, queryInterfaces(socket, interfaceTime)...), nil
}

// mostRateTime is the longest time over which rates are measured: nobody looks at the terminal for longer.
const mostRateTime = time.Minute

func printLinks(
	ctx context.Context, w io.Writer, socket string, asJSON bool, o linkTable, over time.Duration,
) error {
	switch {
	case over < 0 || over > mostRateTime:
		return fmt.Errorf("links: --rates %v; more than 0 and at most %v are possible", over, mostRateTime)
	case over > 0 && asJSON:
		return errors.New("links: --rates is for the table; JSON has the counts, from two of which a program has the rate")
	}
	list, err := queryLinks(socket)
	if err != nil {
		return err
	}
	if over > 0 {
		began := time.Now()
		select {
		case <-time.After(over):
		case <-ctx.Done():
			return ctx.Err()
		}
		o.before = append(make([]links.Report, 0, len(list)), list...)
		if list, err = queryLinks(socket); err != nil {
			return err
		}
		o.passed = time.Since(began)
	}
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(list)
	}
	if len(list) == 0 {
		fmt.Fprintf(w, "no links are open (engine %s)\n", plain(socket))
		return nil
	}
	for i := range list {
		if err := o.print(w, &list[i]); err != nil {
			return err
		}
	}
	return nil
}

// notJoined is why several nodes that share a row are down.
const notJoined = "they have not joined the pool"

// absentNode reports whether a peer is a node that has never joined its pool.
func absentNode(p *fabric.Peer) bool {
	return !p.Up && p.Why == p.Name+" has not joined the pool"
}

// foldAbsent puts the nodes of a pool that have not joined it into one row. Most pools have room for more
// nodes than there are.
func foldAbsent(peers []fabric.Peer) (rows []fabric.Peer) {
	var absent []int
	row := 0 // of the first of them
	for _, p := range peers {
		var node int
		if _, err := fmt.Sscanf(p.Name, "node %d", &node); err != nil || !absentNode(&p) {
			rows = append(rows, p)
			continue
		}
		if absent = append(absent, node); len(absent) == 1 {
			row, rows = len(rows), append(rows, p)
		}
	}
	if len(absent) > 1 {
		rows[row].Name, rows[row].Why = "nodes "+ranges(absent), notJoined
	}
	return rows
}

// ranges writes ascending numbers as in "1, 3 to 5, 7, 8".
func ranges(numbers []int) string {
	var parts []string
	for i := 0; i < len(numbers); {
		end := i + 1
		for end < len(numbers) && numbers[end] == numbers[end-1]+1 {
			end++
		}
		part := strconv.Itoa(numbers[i])
		if end-i > 2 {
			part += " to " + strconv.Itoa(numbers[end-1])
		} else {
			end = i + 1
		}
		parts, i = append(parts, part), end
	}
	return strings.Join(parts, ", ")
}

func stateOf(p fabric.Peer) string {
	switch {
	case p.Up && p.Faults > 0:
		return fmt.Sprintf("up, made anew after %d faults", p.Faults)
	case p.Up:
		return "up"
	case p.Why != "":
		return "down: " + p.Why
	}
	return "down"
}
