//go:build linux && (amd64 || arm64)

package lab

// Host and machine exchange one JSON value a line through the machine's second serial port. The
// first line is the machine's: a report of number 0.

// An Order is the host's request to the machine's first program: to start a program, or, if there
// is no command line, to kill it.
type Order struct {
	Number int      // number of the program, from 1, which the host chooses
	Argv   []string `json:",omitempty"`
}

// A Report is what a machine says of a program. The last one has Ended.
type Report struct {
	Number int
	Output []byte `json:",omitempty"` // part of what it printed
	Ended  bool   `json:",omitempty"`
	Error  string `json:",omitempty"` // why the status is not 0; of number 0: why the machine is not ready
}
