package devx

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Markdown lists the commands and their fields, for docs/reference/firmware-commands.md.
func Markdown() string {
	var b strings.Builder
	b.WriteString("### Commands\n\nLengths are the least that a command and its answer have, in bytes.\n\n")
	b.WriteString("| command | number | what it does | bytes | answer | fields | fields of the answer |\n")
	b.WriteString("| --- | --- | --- | --- | --- | --- | --- |\n")
	var groups []*Group
	for _, c := range commands {
		fmt.Fprintf(&b, "| %s | %#x | %s | %d | %d | %s | %s |\n", c.Name, c.Op, c.Text, c.InSize, c.OutSize,
			names(c.In), names(c.Out))
		for _, g := range slices.Concat(c.In, c.Out) {
			if !slices.Contains(groups, g) {
				groups = append(groups, g)
			}
		}
	}
	for _, n := range slices.Sorted(maps.Keys(capsOf)) {
		groups = append(groups, capsOf[n])
	}
	for _, g := range groups {
		fmt.Fprintf(&b, "\n### %s\n\n| place | field | meaning |\n| --- | --- | --- |\n", g.Name)
		for _, f := range g.Fields {
			fmt.Fprintf(&b, "| %s | %s | %s%s |\n", f.Place(), f.Name, f.Text, f.values())
		}
	}
	return b.String()
}

// names lists the groups, without those that all mailboxes have.
func names(groups []*Group) string {
	var list []string
	for _, g := range groups {
		if g != in && g != inMod && g != out {
			list = append(list, g.Name)
		}
	}
	return strings.Join(list, ", ")
}

// values lists the names of values. Those of an opcode are in the table of commands.
func (f *Field) values() string {
	if f == Opcode {
		return ""
	}
	var b strings.Builder
	for i, v := range slices.Sorted(maps.Keys(f.Values)) {
		fmt.Fprintf(&b, "%s%#x %s", [...]string{": ", "; "}[min(i, 1)], v, f.Values[v])
	}
	return b.String()
}
