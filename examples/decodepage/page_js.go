package main

import (
	"fmt"
	"strings"
	"syscall/js"

	"github.com/nicless/nicless/field/known"
	"github.com/nicless/nicless/field/report"
	"github.com/nicless/nicless/wqe"
)

// main gives the page two functions of text that return text, and waits for calls for ever.
func main() {
	js.Global().Set("niclessDecode", function(decode))
	js.Global().Set("niclessExplain", function(explain))
	select {}
}

func function(f func(string) string) js.Func {
	return js.FuncOf(func(_ js.Value, args []js.Value) any {
		if len(args) != 1 || args[0].Type() != js.TypeString {
			return "one text is needed"
		}
		return f(args[0].String())
	})
}

func decode(text string) string {
	var out strings.Builder
	s, err := report.Decode(&out, strings.NewReader(text), report.Options{Address: wqe.AddressGuess})
	if err != nil {
		return err.Error()
	}
	if s.Items == 0 {
		fmt.Fprintf(&out, "no CQE, WQE, packet or error of a completion in %d lines\n", s.Lines)
	}
	for _, it := range s.Unclear {
		if s.Items == 0 {
			fmt.Fprintf(&out, "lines %d to %d: %s\n", it.Line, it.Last, strings.Join(it.Notes, "; "))
		}
	}
	return out.String()
}

func explain(words string) string {
	a, err := known.Find(words)
	if err != nil {
		return err.Error()
	}
	var out strings.Builder
	if err := report.Page(&out, a); err != nil {
		return err.Error()
	}
	return out.String()
}
