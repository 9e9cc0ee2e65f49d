package main

import (
	"fmt"
	"os"

	"github.com/nicless/nicless/internal/fatbin"
	"github.com/spf13/cobra"
)

const fatbinUsage = `Writes a fat binary of PTX: what a CUDA program has for its kernels. Clang
compiles CUDA without NVIDIA's tools, but cannot write this file itself. It
needs declarations of CUDA's runtime, such as those in accel/cuda/stub.

Usage:
  nicless fatbin -o FILE PTX...

Flags:
  -o, --output FILE  the file to write

Example:
  F='-x cuda --cuda-gpu-arch=sm_80 -nocudainc -nocudalib
    -Xclang -target-sdk-version=11.5'
  clang++ $F --cuda-device-only -Xclang -target-feature -Xclang +ptx70 \
    -S put.cu -o put.ptx
  nicless fatbin -o put.fatbin put.ptx
  clang++ $F --cuda-host-only -Xclang -fcuda-include-gpubinary \
    -Xclang put.fatbin -c put.cu
`

func newFatbin() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "fatbin",
		Short: "write a fat binary of PTX, for CUDA programs that clang compiles",
		Long:  fatbinUsage,
		Args:  cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case output == "":
				return usagef("nicless fatbin -o put.fatbin put.ptx", "fatbin: -o FILE is missing")
			case len(args) == 0:
				return usagef("nicless fatbin -o put.fatbin put.ptx", "fatbin: the files of PTX are missing")
			}
			var entries [][]byte
			for _, name := range args {
				text, err := os.ReadFile(name)
				if err != nil {
					return fmt.Errorf("fatbin: %w", err)
				}
				entry, err := fatbin.Entry(string(text))
				if err != nil {
					return fmt.Errorf("fatbin: %s: %w", plain(name), err)
				}
				entries = append(entries, entry)
			}
			return os.WriteFile(output, fatbin.Container(entries...), 0o644)
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "", "the file to write")
	_ = c.MarkFlagFilename("output")
	return c
}
