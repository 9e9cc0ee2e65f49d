package abi

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A row is a constant and the C expression that it equals.
type row struct{ name, value, expression string }

var (
	headerLine = regexp.MustCompile(`^([a-z0-9_/-]+\.h): `)
	expression = regexp.MustCompile(`^([A-Z][A-Z0-9_]+|sizeof\(struct \w+\)|offsetof\(struct \w+, [\w.]+\))$`)
)

// rows returns the constants of this package and the headers that its files name.
func rows(t *testing.T) (list []row, headers []string) {
	t.Helper()
	fset := token.NewFileSet()
	names, err := filepath.Glob("*.go")
	require.NoError(t, err)
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		require.NoError(t, err)
		files = append(files, f)
	}
	pkg, err := new(types.Config).Check("abi", fset, files, nil)
	require.NoError(t, err)
	commented := make(map[string]string)
	for _, f := range files {
		for _, group := range f.Comments {
			if m := headerLine.FindStringSubmatch(group.Text()); m != nil {
				headers = append(headers, m[1])
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok && spec.Comment != nil {
				commented[spec.Names[0].Name] = strings.TrimSpace(spec.Comment.Text())
			}
			return true
		})
	}
	for _, name := range pkg.Scope().Names() {
		c, ok := pkg.Scope().Lookup(name).(*types.Const)
		require.True(t, ok, "%s is no constant", name)
		require.Regexp(t, expression, commented[name], "%s: its comment is to be the C expression that it equals", name)
		value, exact := constant.Int64Val(c.Val())
		require.True(t, exact, name)
		list = append(list, row{name, fmt.Sprint(value), commented[name]})
	}
	return list, headers
}

// Every constant is equal to the value of the C expression in its comment.
func TestHeaders(t *testing.T) {
	list, headers := rows(t)
	require.Greater(t, len(list), 400)
	require.Len(t, headers, 10)
	dir := t.TempDir()
	program := "#include <stddef.h>\n#include <stdio.h>\n#include <linux/if_ether.h>\n"
	for _, h := range headers {
		program += "#include <" + h + ">\n"
	}
	program += "int main(void)\n{\n"
	for _, r := range list {
		program += fmt.Sprintf("\tprintf(\"%%lld\\n\", (long long)(%s));\n", r.expression)
	}
	source, binary := filepath.Join(dir, "abi.c"), filepath.Join(dir, "abi")
	require.NoError(t, os.WriteFile(source, []byte(program+"}\n"), 0o600))

	compiler, err := exec.LookPath("cc")
	needed(t, err, "a C compiler")
	for _, h := range append([]string{"stdio.h"}, headers...) {
		check := exec.Command(compiler, "-E", "-x", "c", "-o", os.DevNull, "-")
		check.Stdin = strings.NewReader("#include <" + h + ">\n")
		needed(t, check.Run(), "the header "+h)
	}
	said, err := exec.Command(compiler, "-o", binary, source).CombinedOutput()
	require.NoError(t, err, "%s", said)
	said, err = exec.Command(binary).Output()
	require.NoError(t, err)
	values := strings.Fields(string(said))
	require.Len(t, values, len(list))
	for i, r := range list {
		if values[i] != r.value {
			t.Errorf("%s is %s; %s is %s", r.name, r.value, r.expression, values[i])
		}
	}
	t.Logf("%d constants compared with %d headers", len(list), len(headers))
}

// needed skips the test if something that the test needs is missing. In continuous
// integration, where nothing may be missing, it fails the test instead.
func needed(t *testing.T, err error, what string) {
	t.Helper()
	if err == nil {
		return
	}
	const install = "needs %s (Debian and Ubuntu: apt install gcc libc6-dev libibverbs-dev): %v"
	if os.Getenv("CI") == "true" {
		t.Fatalf(install, what, err)
	}
	t.Skipf(install, what, err)
}
