//go:build linux && (amd64 || arm64)

package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"
)

// mostGPUs is how many emulated GPUs a program can have: as many as the greatest machine with real ones.
const mostGPUs = 16

// gpuFlags are those flags of nicless run that are about emulated GPUs.
type gpuFlags struct {
	devices, workers int
	order            uint64
	orders           lateOrders // if there is an order
}

func (f *gpuFlags) add(c *cobra.Command) {
	c.Flags().IntVar(&f.devices, "gpu", 0, "emulated GPUs")
	c.Flags().Lookup("gpu").NoOptDefVal = "1"
	c.Flags().Uint64Var(&f.order, "gpu-order", 0, "seed: kernels' stores are seen late")
	c.Flags().IntVar(&f.workers, "gpu-workers", 0, "threads that execute a kernel")
}

func (f *gpuFlags) check(c *cobra.Command) error {
	set := c.Flags().Changed
	switch {
	case set("gpu") && (f.devices < 1 || f.devices > mostGPUs):
		return usagef(fmt.Sprintf("1 to %d are possible", mostGPUs), "%s: --gpu=%d", c.Name(), f.devices)
	case (set("gpu-order") || set("gpu-workers")) && f.devices == 0:
		return usagef("nicless run --gpu --gpu-order 1", "%s: --gpu-order and --gpu-workers need --gpu", c.Name())
	case set("gpu-order") && f.order == 0:
		return usagef("any other number is possible", "%s: --gpu-order 0 is no seed", c.Name())
	case set("gpu-workers") && f.workers < 1:
		return usagef("1 or more are possible", "%s: --gpu-workers %d", c.Name(), f.workers)
	}
	return nil
}

// settings adds the variables by which the libraries are found, and told what the flags say.
func (f *gpuFlags) settings(set map[string]string) error {
	if f.devices == 0 {
		return nil
	}
	dir, err := gpuLibraries()
	if err != nil {
		return err
	}
	set["LD_LIBRARY_PATH"] = dir
	if before := os.Getenv("LD_LIBRARY_PATH"); before != "" {
		set["LD_LIBRARY_PATH"] += ":" + before
	}
	if finder := filepath.Join(dir, "libnicless_loader.so"); !missing(finder) {
		set["LD_AUDIT"] = finder
		if before := os.Getenv("LD_AUDIT"); before != "" {
			set["LD_AUDIT"] += ":" + before
		}
	}
	set["NICLESS_GPU"] = strconv.Itoa(f.devices)
	if f.order != 0 {
		set["NICLESS_GPU_ORDER"] = strconv.FormatUint(f.order, 10)
		f.orders.dir, err = os.MkdirTemp("", "nicless-orders")
		if err != nil {
			return fmt.Errorf("--gpu-order: %w", err)
		}
		set["NICLESS_GPU_ORDERS"] = f.orders.dir
	}
	if f.workers != 0 {
		set["NICLESS_GPU_WORKERS"] = strconv.Itoa(f.workers)
	}
	return nil
}

// gpuLibraries returns the directory of the libraries that a CUDA program finds in place of NVIDIA's. A
// variable can name it; otherwise it is beside this command, or in ../lib/nicless.
func gpuLibraries() (string, error) {
	const variable, main = "NICLESS_GPU_LIBRARIES", "libnicless_gpu.so"
	if dir := os.Getenv(variable); dir != "" {
		if missing(filepath.Join(dir, main)) {
			return "", hintf(variable+" names a directory with "+main, "%s=%s: there is no %s", variable, plain(dir), main)
		}
		return filepath.Abs(dir)
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	real, _ := filepath.EvalSymlinks(self)
	bin := filepath.Dir(cmp.Or(real, self))
	for _, dir := range []string{filepath.Join(bin, "gpu"), filepath.Join(bin, "../lib/nicless/gpu")} {
		if !missing(filepath.Join(dir, main)) {
			return dir, nil
		}
	}
	return "", hintf("make gpu builds them beside bin/nicless; or name their directory with "+variable,
		"--gpu: there are no libraries of emulated GPUs in %s", filepath.Join(bin, "gpu"))
}
