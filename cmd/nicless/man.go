package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

const manUsage = `Writes the manual pages of nicless into a directory, which is made if it is
missing: nicless.1, and one page for each command. They have the help texts.

Usage:
  nicless man DIR

Example:
  nicless man ~/.local/share/man/man1
`

func newMan() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "write the manual pages",
		Long:   manUsage,
		Hidden: true, // for packagers
		Args:   cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("nicless man DIR", "man: one directory is needed, %d arguments were given", len(args))
			}
			return writeManual(c.Root(), args[0])
		},
	}
}

func writeManual(root *cobra.Command, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("man: %w", err)
	}
	pages := manualPages(root)
	for _, c := range pages {
		var b strings.Builder
		printPage(&b, c, pages)
		if err := os.WriteFile(filepath.Join(dir, pageName(c)+".1"), []byte(b.String()), 0o644); err != nil {
			return fmt.Errorf("man: %w", err)
		}
	}
	return nil
}

// manualPages returns the commands that have a page: all that are listed and have a help
// text of their own. Thus bench lat, bench rate and bench bw are in the page of bench.
func manualPages(c *cobra.Command) []*cobra.Command {
	list := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Long != c.Long && sub.Name() != "help" {
			list = append(list, manualPages(sub)...)
		}
	}
	return list
}

// pageName is nicless-bench-all for nicless bench all.
func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

var (
	// A heading stands alone on its line.
	heading = regexp.MustCompile(`^([A-Z][a-z]+):$`)
	// An item is a flag or another term. Its description is behind two spaces or more,
	// and goes on in lines that are indented more.
	item = regexp.MustCompile(`^  (\S+(?: \S+)*)(?:  +(\S.*))?$`)
)

// printPage writes the help text of a command as a page in the language of man(7). Indented
// lines are printed as they are in the sections Usage and Example; elsewhere they are items
// and their descriptions.
func printPage(w io.Writer, c *cobra.Command, pages []*cobra.Command) {
	p := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	info, _ := debug.ReadBuildInfo()
	p(`.TH %s 1 "" "nicless %s" "nicless manual"`, strings.ToUpper(pageName(c)), roff(buildVersion(info)))
	p(".SH NAME\n%s \\- %s\n.SH DESCRIPTION", roff(pageName(c)), roff(c.Short))
	section, afterText := "", false // whether the line before was text at the margin
	literal := false
	for line := range strings.Lines(c.Long) {
		line = strings.TrimRight(line, "\n")
		indented := strings.HasPrefix(line, " ")
		if literal && !indented {
			p(".fi")
			literal = false
		}
		switch name := heading.FindStringSubmatch(line); {
		case name != nil:
			section = name[1]
			p(".SH %s", strings.ToUpper(section))
		case line == "":
		case indented && (section == "Usage" || section == "Example"):
			if !literal {
				p(".PP\n.nf")
				literal = true
			}
			p("%s", roff(line[2:]))
		case indented:
			parts := item.FindStringSubmatch(line)
			if parts == nil {
				p("%s", roff(strings.TrimSpace(line)))
				break
			}
			p(".TP\n.B %s", roff(parts[1]))
			if parts[2] != "" {
				p("%s", roff(columnGap.ReplaceAllString(parts[2], ": ")))
			}
		default:
			if !afterText {
				p(".PP")
			}
			p("%s", roff(line))
		}
		afterText = line != "" && !indented
	}
	if literal {
		p(".fi")
	}
	p(".SH SEE ALSO")
	for i, o := range pages {
		if o != c {
			end := ","
			if i == len(pages)-1 || i == len(pages)-2 && pages[i+1] == c {
				end = ""
			}
			p(".BR %s (1)%s", roff(pageName(o)), end)
		}
	}
}

// columnGap separates the columns of a description.
var columnGap = regexp.MustCompile(` {2,}`)

// roff escapes a line of text.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", `\[u2026]`).Replace(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	return s
}
