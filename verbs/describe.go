//go:build linux && (amd64 || arm64)

package verbs

import (
	"fmt"
	"strings"

	"github.com/nicless/nicless/verbs/internal/cm"
)

// Markdown lists what is served, for docs/reference/verbs-calls.md.
func Markdown() string {
	var b strings.Builder
	b.WriteString("### Methods\n\nAttributes in `[]` are optional. The number after `in`, `out` or `flags` is a size in bytes.\n\n| method | object.id | attributes |\n| --- | --- | --- |\n")
	for _, m := range allMethods() {
		var list []string
		for i := range m.fields {
			list = append(list, m.fields[i].markdown())
		}
		fmt.Fprintf(&b, "| %s | %#x.%#x | %s |\n", m.name, m.object, m.id, strings.Join(list, ", "))
	}
	b.WriteString("\n### Write commands\n\nDEVICE.INVOKE_WRITE sends these commands. Sizes are in bytes. They do not include the header\nof 8 bytes that programs once wrote before the request.\n\n")
	b.WriteString("| command | number | request | response |\n| --- | --- | --- | --- |\n")
	for _, w := range allWriteCommands() {
		fmt.Fprintf(&b, "| %s | %#x | %s | %d |\n", w.name, w.number, span(w.request, w.known), w.response)
	}
	b.WriteString("\n### Commands of rdma_cm\n\nlibrdmacm writes these commands to `/dev/infiniband/rdma_cm`. Sizes are in bytes, without the\nheader of 8 bytes.\n\n")
	b.WriteString(cm.Markdown())
	return b.String()
}

func span(least, known int) string {
	if least == known {
		return fmt.Sprint(least)
	}
	return fmt.Sprintf("%d to %d", least, known)
}

func (f *field) markdown() string {
	text := fmt.Sprintf("%#x %s: %s", f.id, f.name, shapeNames[f.shape])
	if size := f.size(); size != "" && f.shape != constant {
		text += " " + size
	}
	if f.kind != kindNone {
		text += " of " + f.kind.String()
	}
	if f.optional {
		return "[" + text + "]"
	}
	return text
}
