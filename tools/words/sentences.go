package main

import (
	"fmt"
	"regexp"
	"strings"
)

// A paragraph is lines of prose, and their text in one piece.
type paragraph struct {
	line int
	text string
}

// mark begins an item of a list, which is a paragraph.
var mark = regexp.MustCompile(`^\s*([-*+•]|\d+[.)])\s+`)

// commentParagraphs divides comments at empty lines, items of lists and headings. Examples, which are
// indented by a tab, are no prose.
func commentParagraphs(comments []comment) (all []paragraph) {
	for _, c := range comments {
		all = append(all, paragraphs(c, func(line string) bool { return strings.HasPrefix(line, "\t") })...)
	}
	return all
}

// pageParagraphs divides a page of Markdown in the same way. Text between fences is no prose.
func pageParagraphs(text string) []paragraph {
	fenced := false
	return paragraphs(comment{1, strings.Split(text, "\n")}, func(line string) bool {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
			return true
		}
		return fenced || strings.HasPrefix(line, "|")
	})
}

func paragraphs(c comment, noProse func(string) bool) (all []paragraph) {
	open := false
	for i, line := range c.lines {
		item := mark.FindString(line)
		text := strings.TrimSpace(line[len(item):])
		switch {
		case item == "" && noProse(line), text == "", strings.HasPrefix(text, "# "),
			strings.HasPrefix(text, "##"):
			open = false
		case !open || item != "":
			all = append(all, paragraph{c.line + i, text})
			open = true
		default:
			all[len(all)-1].text += "\n" + text
		}
	}
	return all
}

// subject is the begin of a sentence whose subject is a clause, and sentenceEnd is the end of any sentence.
var (
	subject     = regexp.MustCompile(`(?:^|[.!?][)"'*_]*\s+|\()[*_"]*((?:What|Who|Whoever)\b)`)
	sentenceEnd = regexp.MustCompile(`[.!?][)"'*_]*(?:\s|$)`)
)

// sentences finds sentences that begin with What, Who or Whoever and are no questions.
func sentences(file string, all []paragraph) (found []possible) {
	for _, p := range all {
		for _, at := range subject.FindAllStringSubmatchIndex(p.text, -1) {
			rest := p.text[at[2]:]
			if end := sentenceEnd.FindStringIndex(rest); end != nil && rest[end[0]] == '?' {
				continue
			}
			line := p.line + strings.Count(p.text[:at[2]], "\n")
			word := p.text[at[2]:at[3]]
			instead := map[string]string{
				"What": `"The thing that ...", or a plain noun`, "Who": `"The one that ...", by its name: the poller`,
				"Whoever": `"Each one that ...", by its name: each poller`}[word]
			found = append(found, possible{finding: finding{file, line,
				fmt.Sprintf("a sentence begins with the clause %q: begin with the thing, %s", word, instead)}})
		}
	}
	return found
}
