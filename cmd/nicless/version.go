package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/nicless/nicless/internal/control"
	"github.com/spf13/cobra"
)

const versionUsage = `Prints the version of this build, the version of Go that compiled it, the system
for which it was built, and the version of its control protocol.

Usage:
  nicless version
  nicless --version

Example:
  $ nicless version
  nicless v0.2.0 go1.26.0 linux/amd64 protocol 2.0
`

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "print the version",
		Long:  versionUsage,
		Args:  noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			return printVersion(c.OutOrStdout())
		},
	}
}

func printVersion(w io.Writer) error {
	info, _ := debug.ReadBuildInfo()
	_, err := fmt.Fprintf(w, "nicless %s %s %s/%s protocol %d.%d\n",
		buildVersion(info), runtime.Version(), runtime.GOOS, runtime.GOARCH, control.Major, control.Minor)
	return err
}

// buildVersion returns the version of the module. For a build in a checkout it returns the
// revision, and "+changes" after it if files differed from the revision.
func buildVersion(info *debug.BuildInfo) string {
	if info == nil {
		return "unknown"
	}
	set := make(map[string]string)
	for _, s := range info.Settings {
		set[s.Key] = s.Value
	}
	version, rev := info.Main.Version, set["vcs.revision"]
	if version != "" && version != "(devel)" {
		return version // a tag, or a pseudo-version that contains the revision
	}
	if rev == "" {
		return "devel"
	}
	version = "devel " + rev[:min(12, len(rev))]
	if set["vcs.modified"] == "true" {
		version += "+changes"
	}
	return version
}
