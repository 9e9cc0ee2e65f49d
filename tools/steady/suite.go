//go:build linux

package steady

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// A Suite is packages, and how their tests run.
type Suite struct {
	Name     string
	Packages []string // patterns of go list
	Without  string   // packages with this in their paths are left out
	Race     bool
	Fuzz     bool
	Args     []string // arguments of the test binaries
}

// Suites returns all suites. They are those of .ci/run.
func Suites() []Suite {
	return []Suite{
		{Name: "tests", Packages: []string{"work"}},
		{Name: "race", Packages: []string{"work"}, Without: "/programs", Race: true},
		{Name: "programs", Packages: []string{"./verbs/programs"}, Args: []string{"-programs"}},
		{Name: "networks", Packages: []string{"./netdev/programs"}, Args: []string{"-programs"}},
		{Name: "fuzz", Packages: []string{"work"}, Fuzz: true},
	}
}

// A binary is a compiled test of a package.
type binary struct {
	suite     *Suite
	pkg, dir  string
	path      string
	converter string // the program test2json
}

// compile compiles the tests of a suite into a directory.
func (s *Suite) compile(ctx context.Context, to string) (list []binary, err error) {
	converter, err := output(ctx, "go", "tool", "-n", "test2json")
	if err != nil {
		return nil, err
	}
	args := append([]string{"list", "-f", "{{.ImportPath}}\t{{.Dir}}\t{{.TestGoFiles}}{{.XTestGoFiles}}"}, s.Packages...)
	text, err := output(ctx, "go", args...)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		left := s.Without != "" && strings.Contains(f[0], s.Without)
		if len(f) != 3 || f[2] == "[][]" || left {
			continue
		}
		b := binary{s, f[0], f[1], filepath.Join(to, s.Name+strconv.Itoa(len(list))),
			strings.TrimSpace(converter)}
		if s.Fuzz && !hasFuzz(b.dir) {
			continue
		}
		args := []string{"test", "-c", "-o", b.path}
		if s.Race {
			args = append(args, "-race")
		}
		if s.Fuzz {
			args = append(args, "-fuzz=.") // compiles with counters of what is covered
		}
		if _, err := output(ctx, "go", append(args, b.pkg)...); err != nil {
			return nil, err
		}
		list = append(list, b)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("suite %s: no tests in %v", s.Name, s.Packages)
	}
	return list, nil
}

// hasFuzz reports whether a test file in dir has a fuzz target.
func hasFuzz(dir string) bool {
	files, _ := filepath.Glob(filepath.Join(dir, "*_test.go"))
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && bytes.Contains(text, []byte("\nfunc Fuzz")) {
			return true
		}
	}
	return false
}

func output(ctx context.Context, name string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, name, args...)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil {
		return "",
			fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, errs.String(), out.String())
	}
	return out.String(), nil
}
