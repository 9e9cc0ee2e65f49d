//go:build linux && (amd64 || arm64)

package verbs

import (
	"fmt"

	"github.com/nicless/nicless/field/devx"
)

// Firmware commands (DEVX): a program sends mailboxes as the kernel's driver sends them to the firmware of a
// NIC, and makes queues by them. A context has firmware commands if the program has asked for them in
// GET_CONTEXT and the server grants them (Config.DEVX).

// firmwareError is the error of a firmware command that failed. The program gets EREMOTEIO and the answer,
// with the status and the syndrome in it. The syndrome says where the command was refused: a number other
// than 0 that a program can only print. The sentence is for the log and the watchers.
func firmwareError(s devx.Status, syndrome uint32, format string, args ...any) error {
	answer := make([]byte, devx.HeadSize)
	devx.AnswerStatus.Put(answer, uint64(s))
	devx.Syndrome.Put(answer, uint64(syndrome))
	text := fmt.Sprintf(format, args...) + fmt.Sprintf(" (%v, syndrome %#x)", s, syndrome)
	return &refusal{errno: eREMOTEIO, out: answer, text: text}
}

// inDEVX returns run for contexts with firmware commands. In other contexts the method of that object and
// number is refused as one that the device does not have.
func inDEVX(object, method uint16, run func(*call) error) func(*call) error {
	return func(c *call) error {
		if !c.x.devx {
			return refuse(ePROTONOSUPPORT, "%s", because(object, method, withoutDEVX))
		}
		return run(c)
	}
}
