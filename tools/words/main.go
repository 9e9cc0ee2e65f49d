// Words checks what has to be read twice in the tree: the width of lines, how sentences in comments and pages
// begin, the words of which names consist, and what stands before and in conditions. make check runs it.
//
//	go run ./tools/words      from the root: prints file:line, what is wrong, and what to write in its place
//
// Each rule has a file: width.go, sentences.go, names.go and statements.go. table.go has the words that names
// do not contain, the field's words beside them, and the exceptions with their reasons.
//
// Files that git ignores, generated files and folders named testdata are not checked.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
)

func main() {
	found, err := run(os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "words:", err)
		os.Exit(1)
	}
	if found > 0 {
		fmt.Fprintf(os.Stderr, "words: %d places; tools/words/table.go has the words and the exceptions\n", found)
		os.Exit(1)
	}
}

// A finding is a place that a rule refuses.
type finding struct {
	file string
	line int
	text string
}

func (f finding) String() string { return fmt.Sprintf("%s:%d: %s", f.file, f.line, f.text) }

// run checks the tree in the current folder, prints its findings and returns their number.
func run(w io.Writer) (int, error) {
	list, err := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		return 0, fmt.Errorf("git ls-files: %w", err)
	}
	files := strings.Split(strings.TrimSuffix(string(list), "\x00"), "\x00")
	all, err := checkFiles(os.ReadFile, files, exceptions)
	for _, f := range all {
		fmt.Fprintln(w, f)
	}
	return len(all), err
}

// checkFiles checks files, and then the exceptions: each must be of use.
func checkFiles(
	read func(string) ([]byte, error), files []string, exceptions []exception,
) ([]finding, error) {
	used := make([]bool, len(exceptions))
	var mu sync.Mutex
	var all []finding
	var failed error
	next := make(chan string)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for file := range next {
				found, err := checkFile(read, file)
				mu.Lock()
				for _, f := range found {
					if i := f.excepted(exceptions); i >= 0 {
						used[i] = true
					} else {
						all = append(all, f.finding)
					}
				}
				if err != nil && failed == nil {
					failed = err
				}
				mu.Unlock()
			}
		})
	}
	for _, file := range files {
		next <- file
	}
	close(next)
	workers.Wait()

	slices.SortFunc(all, func(a, b finding) int {
		if c := strings.Compare(a.file, b.file); c != 0 {
			return c
		}
		return a.line - b.line
	})
	for i, e := range exceptions {
		if !used[i] {
			failed = fmt.Errorf("tools/words/table.go: nothing needs the exception %+v", e)
		}
	}
	return all, failed
}

// within reports whether a file or folder is in a folder, or is the folder itself.
func within(file, folder string) bool { return file == folder || strings.HasPrefix(file, folder+"/") }

// A possible finding names the identifier that it is about, if there is one: exceptions are for identifiers.
type possible struct {
	finding
	name, word string
}

// checkFile checks one file by the rules for its kind.
func checkFile(read func(string) ([]byte, error), file string) ([]possible, error) {
	if slices.Contains(strings.Split(path.Dir(file), "/"), "testdata") {
		return nil, nil
	}
	switch path.Ext(file) {
	case ".go", ".c", ".h", ".cu", ".cuh", ".cc", ".cpp", ".hpp":
	case ".md":
		if within(file, "docs/design") { // decisions of the past
			return nil, nil
		}
	default:
		return nil, nil
	}
	text, err := read(file)
	if os.IsNotExist(err) {
		return nil, nil // deleted, and git does not know it yet
	}
	if err != nil {
		return nil, err
	}
	switch path.Ext(file) {
	case ".go":
		return checkGo(file, text)
	case ".md":
		return sentences(file, pageParagraphs(string(text))), nil
	}
	comments := commentsOfC(string(text))
	found := sentences(file, commentParagraphs(comments))
	return append(found, commentWidth(file, string(text), comments)...), nil
}

func checkGo(file string, text []byte) ([]possible, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, file, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	if ast.IsGenerated(f) {
		return nil, nil
	}
	comments := commentsOfGo(fset, f)
	found := append(sentences(file, commentParagraphs(comments)), statements(fset, f, file)...)
	if strings.HasSuffix(file, "_test.go") {
		return append(found, commentWidth(file, string(text), comments)...), nil
	}
	found = append(found, width(fset, f, file, string(text))...)
	return append(found, names(fset, f, file)...), nil
}
