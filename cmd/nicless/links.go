//go:build linux && (amd64 || arm64)

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/fabric"
	"github.com/nicless/nicless/fabric/links"
	"github.com/nicless/nicless/internal/unixsock"
	"github.com/spf13/cobra"
)

const linksUsage = `Prints the links of an engine to other engines and hosts: for each peer the
state, the MTU, the packets sent and received, those sent again, and, if the
link opened by itself or is down, why; below, packets that no good peer sends,
such as those of somebody who tries packet numbers (PSNs) or keys. For RoCE,
also what was dropped: packets of peers, and of strangers, which are addresses
that nobody here has asked for. On links with keys a column says which key each
peer has, since when, and whether packets are encrypted. Nodes that have not
joined a pool share a row. The network interfaces of "nicless net up" are
printed too, with their peers and counts, or that they do not answer.

Usage:
  nicless links [--engine PATH] [--json]

Flags:
  --engine PATH   socket of the engine (default: that of nicless run; in its
                  programs, also with --private, the one that they use)
  --json          print JSON

Example:
  nicless links
  nicless links --engine $XDG_RUNTIME_DIR/nicless.sock --json
`

func newLinks() *cobra.Command {
	var socket string
	var asJSON bool
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
			return printLinks(c.OutOrStdout(), socket, asJSON)
		},
	}
	c.Flags().StringVar(&socket, "engine", "", "socket of the engine")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	_ = c.MarkFlagFilename("engine")
	return c
}

func printLinks(w io.Writer, socket string, asJSON bool) error {
	var list []links.Report
	if err := unixsock.Query(socket+nicless.LinksSuffix, startTime, &list); err != nil {
		if errors.Is(err, fs.ErrPermission) {
			return hintf("its owner decides who may connect: nicless engine --mode", "links: %w", err)
		}
		if errors.As(err, new(*net.OpError)) {
			return hintf("name the engine's socket: nicless links --engine PATH", "links: no engine at %s: %w", socket, err)
		}
		return fmt.Errorf("links: answer of the engine at %s: %w", socket, err)
	}
	list = append(list, queryInterfaces(socket, interfaceTime)...)
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(list)
	}
	if len(list) == 0 {
		fmt.Fprintf(w, "no links are open (engine %s)\n", plain(socket))
		return nil
	}
	for _, l := range list {
		fmt.Fprintln(w, plain(l.Link))
		if l.Why != "" {
			fmt.Fprintf(w, "  open because: %s\n", plain(l.Why))
		}
		if l.About != "" {
			fmt.Fprintf(w, "  %s\n", plain(l.About))
		}
		for _, n := range l.Notes {
			fmt.Fprintf(w, "  %s\n", plain(n))
		}
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		keys := slices.ContainsFunc(l.Peers, func(p fabric.Peer) bool { return p.Keys != "" })
		title, last := "  PEER\tSTATE\tMTU\tSENT\tRECEIVED\tRESENT\tTIMEOUTS", ""
		if keys {
			title += "\tKEYS"
		}
		fmt.Fprintln(t, title)
		for _, p := range foldAbsent(l.Peers) {
			if keys {
				last = "\t" + plain(p.Keys)
			}
			fmt.Fprintf(t, "  %s\t%s\t%d\t%d\t%d\t%d\t%d%s\n", plain(p.Name), plain(stateOf(p)), p.MTU,
				p.Stats.Sent, p.Stats.Received, p.Stats.Resent, p.Stats.Timeouts, last)
		}
		if err := t.Flush(); err != nil {
			return err
		}
		for _, p := range l.Peers {
			printOddities(w, p)
		}
	}
	return nil
}

// foldAbsent puts the nodes of a pool that have not joined it into one row. Most pools have room for more
// nodes than there are.
func foldAbsent(peers []fabric.Peer) (rows []fabric.Peer) {
	var absent []int
	row := 0 // of the first of them
	for _, p := range peers {
		var node int
		if _, err := fmt.Sscanf(p.Name, "node %d", &node); err != nil || p.Up || p.Why != p.Name+" has not joined the pool" {
			rows = append(rows, p)
			continue
		}
		if absent = append(absent, node); len(absent) == 1 {
			row, rows = len(rows), append(rows, p)
		}
	}
	if len(absent) > 1 {
		rows[row].Name, rows[row].Why = "nodes "+ranges(absent), "they have not joined the pool"
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
