//go:build linux && (amd64 || arm64)

package main

import (
	"bufio"
	"fmt"
	"os/exec"
)

// execute runs one command, and prints what it prints.
func execute(command string) error {
	cmd := exec.Command("sh", "-c", command)
	said, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("sh: %w", err)
	}
	for lines := bufio.NewScanner(said); lines.Scan(); {
		fmt.Println("LAB", lines.Text())
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	return nil
}
