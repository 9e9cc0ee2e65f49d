package main

import (
	"encoding/binary"
	"strconv"
	"strings"

	"github.com/nicless/nicless/field"
	"github.com/nicless/nicless/field/devx"
)

// kindAnswer is the kind that needs a command.
const kindAnswer = "devx-out"

// describeCommand describes a firmware command, or the answer of one.
func describeCommand(b []byte, a about) (field.Tree, error) {
	t, err := devx.Describe(b, a.answerOf)
	unknown := len(b) >= devx.HeadSize && a.answerOf == 0 && commandOf(b) == nil
	switch {
	case unknown:
		return t, hintf("docs/reference/firmware-commands.md lists the commands whose fields are known", "%w", err)
	case err != nil:
		return t, &hinted{err: err, hint: "pass the whole mailbox, from the command's number or the answer's status on"}
	}
	return t, nil
}

// commandOf returns the firmware command that bytes begin with, and nil if its fields are not known.
func commandOf(b []byte) *devx.Command {
	if len(b) < 2 {
		return nil
	}
	return devx.Find(binary.BigEndian.Uint16(b))
}

// findCommand returns the number of the command that --command names, by its name or number. Only
// devx-out has one, and it must.
func findCommand(k kind, name string) (uint16, error) {
	const hint = "nicless decode devx-out --command CREATE_QP HEX"
	switch {
	case k.name != kindAnswer && name != "":
		return 0, usagef(hint, "decode: --command is for devx-out")
	case k.name != kindAnswer:
		return 0, nil
	case name == "":
		return 0, usagef(hint, "decode: an answer does not say what it answers; --command does")
	}
	for _, c := range devx.Commands() {
		if strings.EqualFold(c.Name, strings.ReplaceAll(name, "-", "_")) {
			return c.Op, nil
		}
	}
	n, err := strconv.ParseUint(name, 0, 16)
	if err != nil || devx.Find(uint16(n)) == nil {
		return 0, usagef("one of "+strings.Join(commandNames(), ", "), "decode: --command %q does not exist", name)
	}
	return uint16(n), nil
}

func commandNames() (names []string) {
	for _, c := range devx.Commands() {
		names = append(names, c.Name)
	}
	return names
}
