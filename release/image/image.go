// Package image makes an image of a container from packages of Debian and the command, without a
// container daemon and without running anything: a package is unpacked, and its scripts are left out.
// For the packages that a release names, those would make users, and a list of libraries that the dynamic
// linker also finds without it.
//
// The image has two layers: the packages, and the command. The same packages and command give the same bytes.
package image

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// An Image says what is in an image.
type Image struct {
	Packages string // a folder with packages of Debian (*.deb), for Arch, and all that they depend on
	Tree     string // the folder of the tarball, with nicless and LICENSES
	Version  string
	Arch     string // Go's name of the processor
	Time     time.Time
}

// User is the number of the user and the group that programs in the image have.
const User = "65532"

// Write writes the image into a file, as docker save does. docker load and podman load read it.
func (i Image) Write(file string) error {
	built, err := i.build()
	if err != nil {
		return err
	}
	tag, err := name.NewTag("nicless:" + i.Version)
	if err != nil {
		return err
	}
	return tarball.WriteToFile(file, tag, built)
}

func (i Image) build() (v1.Image, error) {
	system, err := i.system()
	if err != nil {
		return nil, err
	}
	command, err := i.command()
	if err != nil {
		return nil, err
	}
	built, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		Architecture: i.Arch, OS: "linux", Created: v1.Time{Time: i.Time.UTC()},
		RootFS: v1.RootFS{Type: "layers"}, // Append adds to it
		Config: v1.Config{
			Env:        []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp"},
			User:       User + ":" + User,
			Entrypoint: []string{"nicless"},
			Cmd:        []string{"--help"},
			WorkingDir: "/",
			Labels: map[string]string{
				"org.opencontainers.image.title":    "nicless",
				"org.opencontainers.image.version":  i.Version,
				"org.opencontainers.image.source":   "https://github.com/nicless/nicless",
				"org.opencontainers.image.licenses": "Apache-2.0",
			},
		},
	})
	if err != nil {
		return nil, err
	}
	// The packages are below: they change less often.
	var added []mutate.Addendum
	for _, l := range []*layer{system, command} {
		made, err := l.build()
		if err != nil {
			return nil, err
		}
		added = append(added, mutate.Addendum{Layer: made,
			History: v1.History{Created: v1.Time{Time: i.Time.UTC()}, CreatedBy: "make release"}})
	}
	return mutate.Append(built, added...)
}

// folders and texts are what no package has, and each system needs.
var (
	folders = map[string]int64{
		"tmp": 0o1777, "var/tmp": 0o1777, "root": 0o700, "run": 0o755,
		"proc": 0o555, "sys": 0o555, "dev": 0o755,
	}
	texts = map[string]string{
		"etc/passwd": "root:x:0:0:root:/root:/bin/sh\n" +
			"nicless:x:" + User + ":" + User + ":nicless:/tmp:/bin/sh\n",
		"etc/group":         "root:x:0:\nnicless:x:" + User + ":\n",
		"etc/hosts":         "127.0.0.1\tlocalhost\n::1\tlocalhost\n",
		"etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
	}
)

// system is the layer of packages, with the little that a system has besides.
func (i Image) system() (*layer, error) {
	files, err := filepath.Glob(filepath.Join(i.Packages, "*.deb"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has no packages (*.deb): scripts/image-packages fetches them", i.Packages)
	}
	l := newLayer(i.Time)
	for _, file := range files {
		if err := l.addDeb(file); err != nil {
			return nil, err
		}
	}
	for _, folder := range merged {
		l.addLink(folder, "usr/"+folder)
		if _, ok := l.entries["usr/"+folder]; !ok {
			l.addFolder("usr/"+folder, 0o755)
		}
	}
	for folder, mode := range folders {
		l.addFolder(folder, mode)
	}
	for name, text := range texts {
		l.addFile(name, []byte(text), 0o644)
	}
	return l, nil
}

// command is the layer of the command.
func (i Image) command() (*layer, error) {
	l := newLayer(i.Time)
	for _, file := range []struct {
		from, to string
		mode     int64
	}{
		{"nicless", "usr/bin/nicless", 0o755},
		{"LICENSES", "usr/share/doc/nicless/copyright", 0o644},
	} {
		text, err := os.ReadFile(filepath.Join(i.Tree, file.from))
		if err != nil {
			return nil, err
		}
		l.addFile(file.to, text, file.mode)
	}
	return l, nil
}
