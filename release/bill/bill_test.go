package bill

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/stretchr/testify/require"
)

// build builds this module's command, which has modules of others in it. A test program does not say which it
// has.
func build(t *testing.T) (path string, info *debug.BuildInfo) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "release")
	out, err := exec.Command("go", "build", "-o", path, "..").CombinedOutput()
	require.NoError(t, err, "%s", out)
	info, err = buildinfo.ReadFile(path)
	require.NoError(t, err)
	require.NotEmpty(t, info.Deps)
	return path, info
}

func TestBill(t *testing.T) {
	self, info := build(t)
	var first, second bytes.Buffer
	at := time.Unix(1790000000, 0)
	require.NoError(t, Write(&first, self, "v1.2.3", at))
	require.NoError(t, Write(&second, self, "v1.2.3", at))
	require.Equal(t, first.String(), second.String())

	var bom cyclonedx.BOM
	d := json.NewDecoder(&first)
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&bom))
	require.Regexp(t, `^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, bom.SerialNumber)
	require.Equal(t, "2026-09-21T14:13:20Z", bom.Metadata.Timestamp)
	require.Equal(t, "pkg:golang/github.com/nicless/nicless@v1.2.3", bom.Metadata.Component.PackageURL)

	require.Len(t, *bom.Components, len(info.Deps)+1, "all modules, and the standard library")
	names := map[string]cyclonedx.Component{}
	for _, c := range *bom.Components {
		names[c.Name] = c
	}
	for _, m := range info.Deps {
		require.Equal(t, m.Version, names[m.Path].Version, m.Path)
		require.Equal(t, m.Sum, (*names[m.Path].Properties)[0].Value)
	}
	require.Len(t, *(*bom.Dependencies)[0].Dependencies, len(info.Deps)+1)
}

func TestModulesOfOthers(t *testing.T) {
	fork := &debug.Module{Path: "example.com/fork", Version: "v2.0.0"}
	info := &debug.BuildInfo{Deps: []*debug.Module{{Path: "z.org/z"}, {Path: own}, {Path: own + "/tools"}, {Path: own + "x"},
		{Path: "example.com/a", Replace: fork}}}
	require.Equal(t, []debug.Module{*fork, {Path: own + "x"}, {Path: "z.org/z"}}, modules(info))
}

func TestLicenses(t *testing.T) {
	self, info := build(t)
	out, err := exec.Command("go", "env", "GOMODCACHE", "GOROOT").Output()
	require.NoError(t, err)
	places := strings.Fields(string(out))
	var b strings.Builder
	require.NoError(t, Licenses(&b, self, "../..", places[0], places[1]))
	for _, m := range info.Deps {
		require.Contains(t, b.String(), "==== "+m.Path+" "+m.Version+": ")
	}
	require.True(t, strings.HasPrefix(b.String(), "==== nicless: LICENSE\n"))
	require.Contains(t, b.String(), "The Go Authors")

	empty := t.TempDir()
	require.ErrorContains(t, Licenses(&b, self, empty, places[0], places[1]), "licence of nicless: "+empty+" has no file")
	require.ErrorContains(t, Licenses(&b, self, "../..", empty, places[1]), "no such file")
	require.ErrorContains(t, Licenses(&b, filepath.Join("../..", "LICENSE"), "../..", places[0], places[1]), "LICENSE")
}
