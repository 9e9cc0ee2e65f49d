// Incidents plays faults of RDMA programs that were reported in public trackers. Each
// incident is a file of rules (rules/NAME.yaml) and a short program (NAME.go) that has the
// bug of the report. The rules let the device fail as it did there, and the program then
// goes wrong as it did there.
//
//	go run ./examples/incidents                    list the incidents
//	go run ./examples/incidents nccl-2383          play one
//	go run ./examples/incidents -healthy nccl-2383 play it without its rules: nothing goes wrong
//
// docs/FAULTS.md has the incidents with their links. The output is the same at each run,
// with the bytes of the completions; times in them are printed as dots. The exit status is 1
// if the incident does not happen, or if without its rules something goes wrong.
package main

import (
	"embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/fault/rulefile"
)

// An incident is a report and a program with the reported bug.
type incident struct {
	name  string // the repository and the number
	link  string
	title string

	// timed: play sets the rules, because they ask the clock. Otherwise they are set before.
	timed bool

	// play does what the reported program does, and says what happens. It returns what
	// went wrong. An empty string means that nothing did.
	play func(s *stage) (wrong string, err error)
}

//go:embed rules
var rules embed.FS

const usage = `usage:
  incidents                   list the incidents
  incidents [-healthy] NAME   play one

  -healthy   without its rules: nothing goes wrong then

example:
  incidents nccl-2383
`

func main() {
	flags := flag.NewFlagSet("incidents", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	healthy := flags.Bool("healthy", false, "")
	err := flags.Parse(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Print(usage)
		return
	case err != nil:
		refuse("%v", err)
	case flags.NArg() == 2 && flags.Arg(0) == "rank": // the second process of an incident
		if err := rank(flags.Arg(1)); err != nil {
			fmt.Fprintf(os.Stderr, "incidents: error: rank: %v\n", err)
			os.Exit(1)
		}
		return
	case flags.NArg() > 1:
		refuse("%q is one incident too many", flags.Arg(1))
	case flags.NArg() == 0:
		for _, i := range incidents {
			fmt.Printf("%-24s %s\n", i.name, i.title)
		}
		return
	}
	for _, i := range incidents {
		if i.name == flags.Arg(0) {
			if err := i.run(os.Stdout, *healthy); err != nil {
				fmt.Fprintf(os.Stderr, "incidents: error: %s: %v\n", i.name, err)
				os.Exit(1)
			}
			return
		}
	}
	refuse("no incident is named %q", flags.Arg(0))
}

func refuse(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "incidents: error: "+format+"\nincidents: hint: incidents lists them\n", args...)
	os.Exit(2)
}

// run plays an incident, with its rules or without.
func (i incident) run(out io.Writer, healthy bool) error {
	fmt.Fprintf(out, "%s: %s\n%s\n", i.name, i.title, i.link)
	var r *fault.Rules
	if !healthy {
		file := "rules/" + i.name + ".yaml"
		text, err := rules.ReadFile(file)
		if err != nil {
			return err
		}
		r, err = rulefile.Parse(file, text)
		if err != nil {
			return err
		}
	}
	s, err := newStage(out, r)
	if err != nil {
		return err
	}
	defer s.close()
	if !i.timed {
		if err := s.obey(); err != nil {
			return err
		}
	}
	wrong, err := i.play(s)
	switch {
	case err != nil:
		return err
	case wrong == "" && !healthy:
		return errors.New("nothing went wrong")
	case wrong != "" && healthy:
		return fmt.Errorf("without rules: %s", wrong)
	case wrong == "":
		wrong = "nothing"
	}
	fmt.Fprintf(out, "wrong: %s\n", wrong)
	return nil
}
