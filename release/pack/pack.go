// Package pack makes packages of Debian and RPM from the tree of a release's tarball.
//
// The tree has the command, completions/, man/, docs/, include/ and texts. Both packages have the same
// files, in the folders that the distributions want, with the units of systemd beside them.
package pack

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers itself
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

//go:embed files
var own embed.FS

// A Release is one for one processor.
type Release struct {
	Tree    string // the folder of the tarball
	Version string // vMAJOR.MINOR.PATCH[-PRERELEASE]
	Arch    string // Go's name of the processor
	Time    time.Time
}

// Formats are the packages that Write makes, by the endings of their files.
var Formats = []string{"deb", "rpm"}

// Write makes a package in the folder out, and returns its path. The same release gives the same bytes.
func (r Release) Write(format, out string) (path string, err error) {
	stage, err := os.MkdirTemp("", "pack-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(stage)
	packager, err := nfpm.Get(format)
	if err != nil {
		return "", err
	}
	info, err := r.describe(format, stage)
	if err != nil {
		return "", err
	}
	path = filepath.Join(out, packager.ConventionalFileName(info))
	f, err := os.Create(path)
	if err != nil {
		return "", err
	}
	if err := errors.Join(packager.Package(info, f), f.Close()); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return path, nil
}

const description = `RDMA NIC made of software and shared memory
 Programs of rdma-core, unmodified, find an mlx5 device; behind it is a process.
 No NIC, no kernel module and no root rights are needed. Mistakes are explained
 in sentences, and all that the device does can be recorded.`

// describe returns what the packagers need to know. Files that are not in the tree are written into stage.
func (r Release) describe(format, stage string) (*nfpm.Info, error) {
	contents, err := r.contents(format, stage)
	if err != nil {
		return nil, err
	}
	script := func(name string) string { return filepath.Join(stage, name) }
	info := &nfpm.Info{
		Name: "nicless", Arch: r.Arch, Platform: "linux", Version: r.Version, Release: "1",
		Section: "net", Priority: "optional", License: "Apache-2.0", MTime: r.Time, DisableGlobbing: true,
		Maintainer:  "The nicless authors <nicless@users.noreply.github.com>",
		Homepage:    "https://github.com/nicless/nicless",
		Description: description,
		Overridables: nfpm.Overridables{
			Contents: contents,
			Umask:    0o022,
			Scripts: nfpm.Scripts{PostInstall: script("postinst"), PreRemove: script("prerm"),
				PostRemove: script("postrm")},
			Deb: nfpm.Deb{Compression: "xz"},
			RPM: nfpm.RPM{Compression: "xz", BuildHost: "nicless", Group: "System Environment/Daemons",
				Summary: strings.SplitN(description, "\n", 2)[0]},
		},
	}
	switch format {
	case "deb":
		info.Recommends = []string{"libibverbs1", "ibverbs-providers"}
		info.Suggests = []string{"perftest", "ibverbs-utils"}
	case "rpm":
		info.Recommends = []string{"libibverbs"}
	}
	info = nfpm.WithDefaults(info)
	return info, nfpm.PrepareForPackager(info, format)
}

// folders are where distributions have files, by the formats of their packages.
var folders = map[string]struct{ zsh, doc string }{
	"deb": {"/usr/share/zsh/vendor-completions/", "/usr/share/doc/nicless/"},
	"rpm": {"/usr/share/zsh/site-functions/", "/usr/share/doc/nicless/"},
}

// contents lists the files of a package, after it has staged those that the tree does not have so.
func (r Release) contents(format, stage string) (list files.Contents, err error) {
	if err := stageOwn(stage); err != nil {
		return nil, err
	}
	at, ok := folders[format]
	if !ok {
		return nil, fmt.Errorf("packages of format %q are not made; %v are", format, Formats)
	}
	add := func(source, to string, mode fs.FileMode) {
		list = append(list, &files.Content{Source: source, Destination: to,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: r.Time}})
	}
	tree := func(name string) string { return filepath.Join(r.Tree, name) }
	add(tree("nicless"), "/usr/bin/nicless", 0o755)
	add(tree("completions/nicless.bash"), "/usr/share/bash-completion/completions/nicless", 0o644)
	add(tree("completions/_nicless"), at.zsh+"_nicless", 0o644)
	add(tree("completions/nicless.fish"), "/usr/share/fish/vendor_completions.d/nicless.fish", 0o644)
	add(filepath.Join(stage, "nicless.service"), "/usr/lib/systemd/system/nicless.service", 0o644)
	add(filepath.Join(stage, "nicless.user.service"), "/usr/lib/systemd/user/nicless.service", 0o644)
	add(filepath.Join(stage, "nicless.sysusers"), "/usr/lib/sysusers.d/nicless.conf", 0o644)
	for _, name := range []string{"README.md", "CHANGELOG.md", "SECURITY.md"} {
		add(tree(name), at.doc+name, 0o644)
	}
	add(tree("LICENSES"), at.doc+"copyright", 0o644)
	add(filepath.Join(stage, "nicless.pc"), "/usr/share/pkgconfig/nicless.pc", 0o644)
	pages := filepath.Join(stage, "man")
	err = errors.Join(r.stagePkgConfig(stage), compressAll(tree("man"), pages))
	for from, to := range map[string]string{
		tree("docs"):            at.doc + "docs",
		tree("include/nicless"): "/usr/include/nicless",
		pages:                   "/usr/share/man/man1",
	} {
		err = errors.Join(err, walk(from, func(file, rest string) {
			add(file, filepath.Join(to, rest), 0o644)
		}))
	}
	return list, err
}

// walk calls use for each file below a folder, with its path and the part of it below the folder.
func walk(folder string, use func(file, rest string)) error {
	return filepath.WalkDir(folder, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rest, err := filepath.Rel(folder, file)
		use(file, rest)
		return err
	})
}

// stageOwn writes the files that are inside this program.
func stageOwn(stage string) error {
	folder, err := fs.Sub(own, "files")
	if err != nil {
		return err
	}
	return os.CopyFS(stage, folder)
}

// stagePkgConfig writes what the headers' Makefile writes at installation.
func (r Release) stagePkgConfig(stage string) error {
	text, err := os.ReadFile(filepath.Join(r.Tree, "include/nicless.pc.in"))
	if err != nil {
		return err
	}
	filled := strings.NewReplacer("@PREFIX@", "/usr", "@INCLUDEDIR@", "/usr/include",
		"@VERSION@", strings.TrimPrefix(r.Version, "v")).Replace(string(text))
	return os.WriteFile(filepath.Join(stage, "nicless.pc"), []byte(filled), 0o644)
}
