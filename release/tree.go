package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nicless/nicless/release/bill"
	"github.com/nicless/nicless/release/image"
	"github.com/nicless/nicless/release/pack"
)

// writePackages makes the packages of a tree.
func writePackages(args []string) error {
	var r pack.Release
	f := flag.NewFlagSet("packages", flag.ContinueOnError)
	seconds := describeRelease(f, &r)
	out := f.String("out", "dist", "the folder for the packages")
	if err := f.Parse(args); err != nil {
		return err
	}
	r.Time = time.Unix(*seconds, 0)
	for _, format := range pack.Formats {
		path, err := r.Write(format, *out)
		if err != nil {
			return err
		}
		fmt.Println(filepath.Base(path))
	}
	return nil
}

func describeRelease(f *flag.FlagSet, r *pack.Release) (seconds *int64) {
	f.StringVar(&r.Tree, "tree", "", "the folder that the tarball has")
	f.StringVar(&r.Arch, "arch", "amd64", "Go's name of the processor")
	f.StringVar(&r.Version, "version", "", "such as v0.2.0")
	return f.Int64("epoch", 0, "the time of all files, in seconds since 1970")
}

// writeBill writes the bill of materials of the command in a tree.
func writeBill(args []string) error {
	var r pack.Release
	f := flag.NewFlagSet("bill", flag.ContinueOnError)
	seconds := describeRelease(f, &r)
	out := f.String("out", "", "the file for the bill")
	if err := f.Parse(args); err != nil {
		return err
	}
	return write(*out, func(w *os.File) error {
		return bill.Write(w, filepath.Join(r.Tree, "nicless"), r.Version, time.Unix(*seconds, 0))
	})
}

// writeLicenses writes LICENSES into a tree.
func writeLicenses(args []string) error {
	f := flag.NewFlagSet("licenses", flag.ContinueOnError)
	tree := f.String("tree", "", "the folder that the tarball has")
	cache := f.String("modcache", "", "go env GOMODCACHE")
	root := f.String("goroot", "", "go env GOROOT")
	if err := f.Parse(args); err != nil {
		return err
	}
	return write(filepath.Join(*tree, "LICENSES"), func(w *os.File) error {
		return bill.Licenses(w, filepath.Join(*tree, "nicless"), *tree, *cache, *root)
	})
}

// write makes a file, and removes it again if it could not be written whole.
func write(path string, fill func(w *os.File) error) error {
	w, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := errors.Join(fill(w), w.Close()); err != nil {
		_ = os.Remove(path)
		return err
	}
	return nil
}

// writeImage makes the image of a container.
func writeImage(args []string) error {
	var r pack.Release
	f := flag.NewFlagSet("image", flag.ContinueOnError)
	seconds := describeRelease(f, &r)
	packages := f.String("packages", "", "a folder with packages of Debian")
	out := f.String("out", "", "the file for the image")
	if err := f.Parse(args); err != nil {
		return err
	}
	at := time.Unix(*seconds, 0)
	i := image.Image{Packages: *packages, Tree: r.Tree, Version: r.Version, Arch: r.Arch, Time: at}
	return i.Write(*out)
}
