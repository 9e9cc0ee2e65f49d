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

const manUsage = `Writes the manual pages of nicless into the directory DIR, and makes DIR if it
is missing. The pages are nicless.1 and one page for each command. Their text is
that of the commands' help.

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

// manualPages returns the commands that have a page. These are all commands that are listed
// and whose help text differs from that of the command above them. So bench lat, bench rate
// and bench bw have no page; the page of bench describes them.
func manualPages(c *cobra.Command) []*cobra.Command {
	list := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Long != c.Long && sub.Name() != "help" {
			list = append(list, manualPages(sub)...)
		}
	}
	return list
}

// pageName returns the name of a command's page, such as nicless-bench-all for nicless bench
// all.
func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

var (
	// A heading is alone on its line.
	heading = regexp.MustCompile(`^([A-Z][a-z]+):$`)
	// An item is a flag or another term. Its description follows after two spaces or more
	// and continues on lines that are indented further.
	item = regexp.MustCompile(`^  (\S+(?: \S+)*)(?:  +(\S.*))?$`)
)

// printPage writes the help text of a command as a page in the language of man(7). In the
// sections Usage and Example it prints indented lines as they are. In all other sections,
// indented lines are items and their descriptions.
func printPage(w io.Writer, c *cobra.Command, pages []*cobra.Command) {
	p := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	info, _ := debug.ReadBuildInfo()
	p(`.TH %s 1 "" "nicless %s" "nicless manual"`, strings.ToUpper(pageName(c)), roff(buildVersion(info)))
	p(".SH NAME\n%s \\- %s\n.SH DESCRIPTION", roff(pageName(c)), roff(c.Short))
	section, afterText := "", false // afterText: the previous line was text that is not indented
	literal := false
	for line := range strings.Lines(c.Long) {
		line = strings.TrimRight(line, "\n")
		indented := strings.HasPrefix(line, " ")
		if literal && !indented {
			p(".fi")
			literal = false
		}
		name := heading.FindStringSubmatch(line)
		switch {
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
