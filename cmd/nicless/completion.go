package main

import (
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

const completionUsage = `Prints a completion script for a shell. When the shell has read the script, the
TAB key completes the commands, flags and values of nicless.

Usage:
  nicless completion bash|zsh|fish|powershell

Example:
  source <(nicless completion bash)     for this shell; needs bash-completion
  nicless completion bash > ~/.local/share/bash-completion/completions/nicless
  nicless completion zsh > "${fpath[1]}/_nicless"
  nicless completion fish > ~/.config/fish/completions/nicless.fish
  nicless completion powershell | Out-String | Invoke-Expression
`

func newCompletion() *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:       "completion SHELL",
		Short:     "print a script for completion in a shell",
		Long:      completionUsage,
		ValidArgs: shells,
		Args:      cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			hint := "one of " + strings.Join(shells, ", ")
			switch {
			case len(args) == 0:
				return usagef(hint, "completion: the shell is missing")
			case len(args) > 1:
				return usagef(hint, "completion: one shell at a time, %q was given as well", args[1])
			case !slices.Contains(shells, args[0]):
				return usagef(hint, "completion: shell %q is not known", args[0])
			}
			return complete(c.Root(), args[0], c.OutOrStdout())
		},
	}
}

func complete(root *cobra.Command, shell string, w io.Writer) error {
	switch shell {
	case "bash":
		return root.GenBashCompletionV2(w, true)
	case "zsh":
		return root.GenZshCompletion(w)
	case "fish":
		return root.GenFishCompletion(w, true)
	}
	return root.GenPowerShellCompletionWithDesc(w)
}
