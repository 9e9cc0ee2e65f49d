package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/share"
	"github.com/stretchr/testify/require"
)

var mutations = flag.Bool("mutations", false, "TestPlanted*: runs the tests with each planted change (some minutes)")

// A plantedChange breaks a rule: in a file, the text old, which occurs once, becomes new. One of the tests
// whose names begin with by has to fail then.
type plantedChange struct{ name, file, old, new, by string }

// A plantedRule breaks a rule whose name is at the end of the line of code that keeps it, after ruleMark. The
// code of that line becomes broken. If broken is empty, the rule is left out: see leftOut.
type plantedRule struct{ rule, broken, by string }

const ruleMark = " // rule: "

// plantable returns all changes.
var plantable = sync.OnceValue(func() []plantedChange {
	lines := findRules()
	var list []plantedChange
	for _, r := range slices.Concat(plantedFastPath, plantedWireFast) {
		at := lines[r.rule]
		if len(at) != 1 { // TestDifferencesCanBePlanted says so
			at = []ruleLine{{}}
		}
		if r.broken == "" {
			r.broken = leftOut(at[0].code)
		}
		list = append(list, plantedChange{r.rule, at[0].file, at[0].code + at[0].mark, r.broken, r.by})
	}
	return slices.Concat(list, plantedBeside, plantedRules, plantedAnnouncements, plantedWireRules)
})

// A ruleLine is a line of code that keeps a rule, and the comment that says so.
type ruleLine struct{ file, code, mark string }

// findRules returns the lines of the engine's source that keep rules, by the rule's name.
func findRules() map[string][]ruleLine {
	lines := make(map[string][]ruleLine)
	files, _ := filepath.Glob("internal/*/*.go")
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, _ := os.ReadFile(file)
		for line := range strings.Lines(string(source)) {
			if code, rule, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ruleMark); ok {
				mark := code[len(strings.TrimRight(code, " ")):] + ruleMark + rule
				lines[rule] = append(lines[rule], ruleLine{file, strings.TrimSpace(code), mark})
			}
		}
	}
	return lines
}

// leftOut returns a line of code without its rule: a condition, which ends in || or in {, is never true, and
// a statement is left out.
func leftOut(code string) string {
	for _, end := range []string{" ||", " {"} {
		if cond, ok := strings.CutSuffix(code, end); ok {
			at := max(strings.LastIndex(cond, "if ")+len("if "), strings.LastIndex(cond, "; ")+len("; "))
			if !strings.Contains(cond, "if ") {
				at = 0
			}
			return cond[:at] + "false && (" + cond[at:] + ")" + end
		}
	}
	return ""
}

func TestLeftOut(t *testing.T) {
	for code, want := range map[string]string{
		"p.ScheduleACK(q)":            "",
		"if n < 2 {":                  "if false && (n < 2) {",
		"} else if n != m {":          "} else if false && (n != m) {",
		"if a == b ||":                "if false && (a == b) ||",
		"c != d ||":                   "false && (c != d) ||",
		"a && !b {":                   "false && (a && !b) {",
		"if n = 1; m == 0 || n < 2 {": "if n = 1; false && (m == 0 || n < 2) {",
	} {
		require.Equal(t, want, leftOut(code))
	}
}

// The lines that changes replace are in the source, and each rule that has a name there is broken. This test
// needs no build.
func TestDifferencesCanBePlanted(t *testing.T) {
	lines := findRules()
	for _, r := range slices.Concat(plantedFastPath, plantedWireFast) {
		require.Len(t, lines[r.rule], 1, "rule: %s", r.rule)
	}
	for rule := range lines {
		require.True(t, slices.ContainsFunc(plantable(), func(c plantedChange) bool { return c.name == rule }), "rule: %s", rule)
	}
	for _, c := range plantable() {
		source, err := os.ReadFile(c.file)
		require.NoError(t, err)
		require.Equal(t, 1, strings.Count(string(source), c.old), "%q in %s", c.old, c.file)
	}
}

// One binary of the engine's tests has all changes: each function with a change has a copy with
// it, and calls the copy if the environment asks for that change. Building the engine for each
// change took 5 s for each.
var allPlanted = sync.OnceValues(func() (binary string, err error) {
	dir, err := os.MkdirTemp("", "planted")
	if err != nil {
		return "", err
	}
	replace := make(map[string]string)
	put := func(name string, text []byte) error {
		path, err := filepath.Abs(name)
		replace[path] = filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		if err != nil {
			return err
		}
		return os.WriteFile(replace[path], text, 0o644)
	}
	files := make(map[string]*changedFile)
	for i, c := range plantable() {
		if files[c.file] == nil {
			files[c.file], err = openChanged(c.file)
			if err != nil {
				return "", err
			}
		}
		if err := files[c.file].plant(i, c); err != nil {
			return "", fmt.Errorf("%s: %s: %w", c.file, c.name, err)
		}
	}
	for name, f := range files {
		if err := put(name, f.text()); err != nil {
			return "", err
		}
		chosen := "package " + f.tree.Name.Name + "\n\nimport (\n\t\"os\"\n\t\"strconv\"\n)\n\nvar plantedNow, _ = strconv.Atoi(os.Getenv(\"PLANTED\"))\n"
		if err := put(filepath.Join(filepath.Dir(name), "planted_now.go"), []byte(chosen)); err != nil {
			return "", err
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, overlay, 0o644); err != nil {
		return "", err
	}
	binary = filepath.Join(dir, "engine.test")
	out, err := exec.Command("go", "test", "-c", "-vet=off", "-overlay", list, "-o", binary, ".").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return binary, err
})

// A changedFile is a source file into which changes are planted.
type changedFile struct {
	source  []byte
	set     *token.FileSet
	tree    *ast.File
	inserts map[int][]byte // by offset in the source
	copies  bytes.Buffer   // functions with changes
}

func openChanged(name string) (*changedFile, error) {
	f := &changedFile{set: token.NewFileSet(), inserts: make(map[int][]byte)}
	var err error
	f.source, err = os.ReadFile(name)
	if err == nil {
		f.tree, err = parser.ParseFile(f.set, name, f.source, parser.SkipObjectResolution)
	}
	return f, err
}

func (f *changedFile) offset(p token.Pos) int { return f.set.Position(p).Offset }

// plant adds a copy of the function in which a change is. Change 0 is asked for as number 1.
func (f *changedFile) plant(i int, c plantedChange) error {
	at := bytes.Index(f.source, []byte(c.old))
	end := at + len(c.old)
	for _, d := range f.tree.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || at <= f.offset(fn.Name.End()) || end > f.offset(fn.End()) {
			continue
		}
		name := fmt.Sprintf("%s_planted%d", fn.Name.Name, i+1)
		call, err := f.callOf(fn, name)
		if err != nil {
			return err
		}
		body := f.offset(fn.Body.Lbrace) + 1
		f.inserts[body] = fmt.Appendf(f.inserts[body], " if plantedNow == %d { %s };", i+1, call)
		fmt.Fprintf(&f.copies, "\n\n%s%s%s%s%s", f.source[f.offset(fn.Pos()):f.offset(fn.Name.Pos())], name,
			f.source[f.offset(fn.Name.End()):at], c.new, f.source[end:f.offset(fn.End())])
		return nil
	}
	return fmt.Errorf("%q is not in one function", c.old)
}

// callOf returns statements that call another function with the receiver and the parameters of fn, and
// return what it returns. Parameters without a name get one.
func (f *changedFile) callOf(fn *ast.FuncDecl, name string) (string, error) {
	if fn.Recv != nil {
		if len(fn.Recv.List[0].Names) == 0 {
			return "", fmt.Errorf("the receiver of %s has no name", fn.Name.Name)
		}
		name = fn.Recv.List[0].Names[0].Name + "." + name
	}
	var args []string
	for _, p := range fn.Type.Params.List {
		for _, n := range p.Names {
			arg := n.Name
			if arg == "_" {
				own := fmt.Sprint("p", len(args))
				f.inserts[f.offset(n.End())] = []byte(own)
				arg += own
			}
			args = append(args, arg)
		}
	}
	call := name + "(" + strings.Join(args, ", ") + ")"
	if fn.Type.Results == nil {
		return call + "; return", nil
	}
	return "return " + call, nil
}

// text returns the file with all changes.
func (f *changedFile) text() []byte {
	var out bytes.Buffer
	last := 0
	for _, at := range slices.Sorted(maps.Keys(f.inserts)) {
		out.Write(f.source[last:at])
		out.Write(f.inserts[at])
		last = at
	}
	out.Write(f.source[last:])
	out.Write(f.copies.Bytes())
	return append(out.Bytes(), '\n')
}

// plantedTime is for how many seconds a process may run that tests a change. Some changes make the engine
// or a test go on for ever. The time is that of the process alone: a test that is only slow because others
// have the cores has found nothing. The slowest of these tests takes a few seconds.
const plantedTime = 60

// plant runs the tests that have to find a change. A test that has found one may wait for ever afterwards,
// when it cleans up: then its process is killed. Its report, which is written at once because of -test.v, is
// what counts. Without a rule that bounds memory, the engine may also read where there is none: areas
// (shm.Area) check no offset, so the process ends.
func plant(t *testing.T, c plantedChange) {
	t.Parallel()
	binary, err := allPlanted()
	require.NoError(t, err)
	cmd := exec.CommandContext(twicePatient(t), "sh", "-c", `ulimit -t "$0" && exec "$@"`, fmt.Sprint(plantedTime), binary, "-test.timeout", "0", "-test.failfast", "-test.v", "-rapid.nofailfile", "-test.run", "^("+c.by+")")
	cmd.Env = append(os.Environ(), fmt.Sprint("PLANTED=", slices.Index(plantable(), c)+1))
	out, err := cmd.CombinedOutput()
	require.Error(t, err, "the change is not found")
	found := "--- FAIL: (" + c.by + ")|\tError Trace:|SIGXCPU: cpu limit exceeded|^unexpected fault address"
	require.Regexp(t, "(?m)"+found, string(out), "it ends for another reason")
}

// twicePatient returns a context that ends when a wait would have been over twice: the test in the process
// waits once before it fails, and may then wait for ever.
func twicePatient(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	first := await.Context(t)
	context.AfterFunc(first, func() {
		if errors.Is(context.Cause(first), await.ErrOver) {
			context.AfterFunc(await.Context(t), cancel)
		}
	})
	return ctx
}

// Each change makes one of the tests fail that it names; without a change they pass.
func TestPlanted(t *testing.T) {
	if !*mutations {
		t.Skip("runs the tests with each planted change; go test ./engine -run TestPlanted -mutations")
	}
	binary, err := allPlanted()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(filepath.Dir(binary))) })
	by := make(map[string]bool)
	for _, c := range share.Of(plantable()) {
		by[c.by] = true
		t.Run(c.name, func(t *testing.T) { plant(t, c) })
	}
	t.Run("none", func(t *testing.T) {
		out, err := exec.Command(binary, "-test.timeout", "0", "-rapid.nofailfile", "-test.run", "^("+strings.Join(slices.Sorted(maps.Keys(by)), "|")+")").CombinedOutput()
		require.NoError(t, err, "%s", out)
	})
}
