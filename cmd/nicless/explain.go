package main

import (
	"errors"
	"io"
	"os"
	"strings"

	"github.com/nicless/nicless/field/known"
	"github.com/nicless/nicless/field/report"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

const explainUsage = `Explains an error: what it means, what probably caused it, the most probable
first, how sure that is, and how to fix it.

Usage:
  nicless explain CODE|SYNDROME|STATUS|TEXT...
  nicless explain < TEXT
  nicless explain --list

The words are one of:
  CODE       a code of nicless, as in "… (key-access)"
  SYNDROME   byte 55 of an error CQE: 0x13, or its name in mlx5dv.h; with the
             vendor byte: 0x13 0x88, or "syndrome 0x13 vendor 0x88"
  STATUS     ibv_wc_status: 10, "status 10", IBV_WC_REM_ACCESS_ERR, or its text
             "remote access error"
  TEXT       the text of an error, as a program has printed it

A number with 0x is a syndrome, or a vendor byte if no syndrome has it, and a
decimal one a status, as programs print them.
Without words, or with "-", a text of at most 64 KiB comes from standard input.
For dumps and whole logs, use nicless decode.

Flags:
  --list     list all codes, syndromes and statuses

The exit status is 2 if the command line is wrong, and 1 if nothing is known
about the words; then the error names the names that are similar, if any.

Example:
  nicless explain key-access
  nicless explain syndrome 0x13 vendor 0x88
  nicless explain 'Failed status transport retry counter exceeded (12)'
`

func newExplain() *cobra.Command {
	var list bool
	c := &cobra.Command{
		Use:               "explain CODE|SYNDROME|TEXT...",
		Short:             "explain a code, a syndrome, a status or the text of an error",
		Long:              explainUsage,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: cobra.FixedCompletions(known.Names(), cobra.ShellCompDirectiveNoFileComp),
		RunE: func(c *cobra.Command, args []string) error {
			if list {
				if len(args) > 0 {
					return usagef("nicless explain --list", "explain: --list takes no words, %q was given", plain(args[0]))
				}
				return report.List(c.OutOrStdout())
			}
			words, err := words(args, c.InOrStdin())
			if err != nil {
				return err
			}
			a, err := known.Find(words)
			if err != nil {
				return hintf(explainHint(words), "explain: %w", err)
			}
			return report.Page(c.OutOrStdout(), a)
		},
	}
	c.Flags().BoolVar(&list, "list", false, "list all names")
	return c
}

// problems has texts of programs that are not about a completion, and what they mean.
// docs/guide/verbs-problems.md has these texts, and says what to do.
var problems = []struct{ text, means string }{
	{"DEVX requested but not supported", "the program, or its engine, was started with --no-devx"},
	{"EREMOTEIO", "a firmware command (DEVX) failed, and nicless run --explain says why"},
	{"Remote I/O error", "a firmware command (DEVX) failed, and nicless run --explain says why"},
}

// explainHint returns a hint for words about which package known knows nothing.
func explainHint(words string) string {
	for _, p := range problems {
		if strings.Contains(strings.ToLower(words), strings.ToLower(p.text)) {
			return "of a program that uses verbs: " + p.means + "; see docs/guide/verbs-problems.md"
		}
	}
	return `"nicless explain --list" lists the names; dumps are for nicless decode`
}

// words returns the arguments, or standard input if there is none or only "-".
func words(args []string, stdin io.Reader) (string, error) {
	if len(args) > 0 && !(len(args) == 1 && args[0] == "-") {
		return strings.Join(args, " "), nil
	}
	if f, ok := stdin.(*os.File); ok && len(args) == 0 && term.IsTerminal(int(f.Fd())) {
		return "", usagef("nicless explain key-access, or nicless explain 0x13", "explain: a code, a syndrome or a text is missing")
	}
	text, err := readInput(stdin, "nicless decode reads texts of any length: nicless decode < FILE")
	if err != nil {
		return "", err
	}
	if strings.TrimSpace(text) == "" {
		return "", &hinted{err: errors.New("explain: standard input is empty"), hint: "nicless explain key-access, or nicless explain 0x13"}
	}
	return text, nil
}
