//go:build linux && (amd64 || arm64)

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/nicless/nicless/fabric/auth"
	"github.com/spf13/cobra"
)

const keyUsage = `Makes and shows the keys by which engines authenticate each other over links.

"new" makes a private key in a file that only you can read, and prints the
public key. It never replaces a file. "show" prints the public key of a file and
its fingerprint, which "nicless links" prints at the peer.

Usage:
  nicless key new FILE
  nicless key show FILE

An engine gets its key by key=FILE in --link: roce:ADDRESS,key=FILE,
auto,key=FILE or ucx:HOST:PORT,key=FILE. It accepts the keys in FILE.peers, or
in the file that peers= names, whose lines are an address or a prefix and a
public key. Only the owner of this file may be able to write it (mode 0644 at
most). With trust=first the engine adds the key that it sees first from an
address.

Example:
  nicless key new node1.key
  nicless key show node1.key
  nicless engine --socket a.sock --link roce:10.0.0.1,key=node1.key
`

func newKey() *cobra.Command {
	c := &cobra.Command{
		Use:   "key",
		Short: "make and show the keys of authenticated links",
		Long:  keyUsage,
		Args:  cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("nicless key new FILE and nicless key show FILE are possible", "key: command %q does not exist", args[0])
			}
			return usagef("nicless key --help", "key: a command is missing")
		},
	}
	c.AddCommand(keyCommand("new", "make a private key and print the public one", newKeyFile))
	c.AddCommand(keyCommand("show", "print the public key of a private one", showKeyFile))
	return c
}

// keyCommand returns a command that takes the name of a file.
func keyCommand(name, short string, do func(w io.Writer, path string) error) *cobra.Command {
	return &cobra.Command{
		Use:   name + " FILE",
		Short: short,
		Long:  keyUsage,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("nicless key "+name+" FILE", "key %s: the name of one file is needed", name)
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return do(c.OutOrStdout(), args[0]) },
	}
}

func newKeyFile(w io.Writer, path string) error {
	id, err := auth.NewIdentity(path)
	if errors.Is(err, fs.ErrExist) {
		return hintf("nicless key show FILE prints its public key", "key new: %w", err)
	}
	return printKey(w, id, err)
}

func showKeyFile(w io.Writer, path string) error {
	id, err := auth.LoadIdentity(path)
	return printKey(w, id, err)
}

func printKey(w io.Writer, id *auth.Identity, err error) error {
	if err != nil {
		return fmt.Errorf("key: %w", err)
	}
	_, err = fmt.Fprintf(w, "%v # fingerprint %s\n", id.Public(), id.Public().Fingerprint())
	return err
}
