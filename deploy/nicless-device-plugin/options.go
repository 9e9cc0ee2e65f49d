//go:build linux && (amd64 || arm64)

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/nicless/nicless/deploy/internal/engines"
	"github.com/nicless/nicless/deploy/internal/plugin"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const usage = `Offers RDMA devices made of software to the pods of this node. Each container that
asks for some gets an engine of its own (nicless engine), which has so many
devices, and everything that unmodified verbs programs need to find them.

Usage:
  nicless-device-plugin [flags] [-- FLAGS OF nicless engine]

Flags:
  --devices N       devices of this node (default: one for each core, at least 2)
  --resource NAME   how pods ask for them (default: nicless.io/hca)
  --dir DIR         files of engines, which containers have mounted from the node:
                    the path is the node's, too, and libraries can be loaded from
                    there (default: /var/lib/nicless)
  --kubelet DIR     sockets of the kubelet and its plugins
                    (default: /var/lib/kubelet/device-plugins)
  --cdi DIR         where to write the CDI specification; "" for none
                    (default: /var/run/cdi)
  --user UID[:GID]  run engines as this user (default: as the plugin, root)
  --nicless PATH    the command nicless (default: beside the plugin, or in PATH)
  --library PATH    libnicless_verbs.so of the same version (default: beside
                    nicless, or in ../lib from there)

Example:
  nicless-device-plugin --devices 4 -- --no-devx
`

var (
	errUsage = errors.New("usage")
	errHelp  = errors.New("help")
)

type options struct {
	devices                     int
	resource, dir, kubelet, cdi string
	command, library            string
	user                        *engines.User
	engine                      []string // flags of nicless engine
}

// parse reads the command line. It prints what is wrong with it to w.
func parse(args []string, w io.Writer) (*options, error) {
	o := new(options)
	f := flag.NewFlagSet("nicless-device-plugin", flag.ContinueOnError)
	f.SetOutput(w)
	f.Usage = func() {}
	f.IntVar(&o.devices, "devices", max(2, runtime.NumCPU()), "")
	f.StringVar(&o.resource, "resource", plugin.Resource, "")
	f.StringVar(&o.dir, "dir", plugin.Directory, "")
	f.StringVar(&o.kubelet, "kubelet", filepath.Clean(api.DevicePluginPath), "")
	f.StringVar(&o.cdi, "cdi", plugin.CDIDirectory, "")
	f.StringVar(&o.command, "nicless", "", "")
	f.StringVar(&o.library, "library", "", "")
	f.Func("user", "", func(text string) (err error) { o.user, err = parseUser(text); return err })
	err := f.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(w, usage)
		return nil, errHelp
	case err != nil:
		return nil, errUsage // the package flag has printed it
	}
	o.engine = f.Args()
	if len(o.engine) > 0 && !strings.HasPrefix(o.engine[0], "-") {
		fmt.Fprintf(w, "nicless-device-plugin: argument %q: only flags of nicless engine come after --\n", o.engine[0])
		return nil, errUsage
	}
	if err := plugin.CheckResource(o.resource); err != nil {
		fmt.Fprintf(w, "nicless-device-plugin: --resource: %v\n", err)
		return nil, errUsage
	}
	return o, o.find()
}

// directory returns where the files of engines are. Each resource has its own directory.
func (o *options) directory() string {
	return filepath.Join(o.dir, strings.ReplaceAll(o.resource, "/", "-"))
}

func parseUser(text string) (*engines.User, error) {
	first, second, group := strings.Cut(text, ":")
	if !group {
		second = first
	}
	uid, err1 := strconv.ParseUint(first, 10, 32)
	gid, err2 := strconv.ParseUint(second, 10, 32)
	if err1 != nil || err2 != nil {
		return nil, errors.New("numbers are possible: UID or UID:GID")
	}
	return &engines.User{UID: uint32(uid), GID: uint32(gid)}, nil
}

// find looks for the command and its library, unless flags name them.
func (o *options) find() error {
	if o.command == "" {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		o.command = filepath.Join(filepath.Dir(self), "nicless")
		if _, err := os.Stat(o.command); err != nil {
			o.command, err = exec.LookPath("nicless")
			if err != nil {
				return fmt.Errorf("the command nicless, beside the plugin and in PATH: %w", os.ErrNotExist)
			}
		}
	}
	if o.library != "" {
		return nil
	}
	var places []string
	for _, dir := range []string{".", "../lib", "../lib/nicless"} {
		path := filepath.Join(filepath.Dir(o.command), dir, engines.LibraryName)
		if _, err := os.Stat(path); err == nil {
			o.library = path
			return nil
		}
		places = append(places, path)
	}
	return fmt.Errorf("%s: %w", strings.Join(places, ", "), os.ErrNotExist)
}
