//go:build linux && (amd64 || arm64)

// The first program of a machine of package lab. It loads modules, finds the memory that the machine
// shares with others, and starts an engine, as the kernel's command line says:
//
//	lab.seconds=N     the machine is off after this time; it must be there
//	lab.pool=KIND     find shared memory: pcie or cxl
//	lab.node=N        number of this machine among those that share the memory, from 0
//	lab.address=A/N   address of this machine; commands see it
//	lab.engine=yes    start nicless engine with a link over the memory, before lab.cmd
//	lab.link=OPTIONS  more options of that link, such as nodes=4,dead=4s
//	lab.cmd="..."     what sh runs; the lines that it prints begin with LAB; then the machine is off
//
// Without lab.cmd= the program starts and kills programs as the host says through the second serial
// port. Programs find in their environment what is known of the memory: LAB_NODE, LAB_POOL, LAB_SIZE,
// LAB_COHERENT, LAB_LINK, LAB_SOCKET and LAB_ADDRESS.
//
//   - main.go: the order of things
//   - system.go: file systems, the time limit, the serial port, modules, the loopback device
//   - share.go: the shared memory
//   - engine.go: the engine
//   - command.go: one command
//   - orders.go: the host's orders
package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	os.Clearenv()
	_ = os.Setenv("PATH", "/usr/bin:/usr/sbin:/bin:/sbin")
	_ = os.Setenv("HOME", "/tmp")
	if err := run(); err != nil {
		fmt.Println("lab: the first program ends:", err)
		fmt.Println("LAB ended:", err)
	} else {
		fmt.Println("LAB ended: ok")
	}
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

func run() error {
	if err := mount(); err != nil {
		return err
	}
	line, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return err
	}
	o := parse(string(line))
	if err := expire(o["seconds"]); err != nil {
		return err
	}
	prepare := func() error {
		if err := errors.Join(loopback(), loadModules("/modules/order")); err != nil {
			return err
		}
		return share(o)
	}
	command, ok := o["cmd"]
	if !ok {
		return takeOrders(prepare)
	}
	if err := prepare(); err != nil {
		return err
	}
	stop := func() {}
	if o["engine"] == "yes" {
		if stop, err = startEngine(os.Getenv("LAB_LINK")); err != nil {
			return err
		}
	}
	defer stop()
	return execute(command)
}

var option = regexp.MustCompile(`\blab\.(\w+)=("[^"]*"|\S+)`)

// parse returns the options on the kernel's command line that begin with "lab.", without that.
func parse(line string) map[string]string {
	o := make(map[string]string)
	for _, at := range option.FindAllStringSubmatch(line, -1) {
		value := at[2]
		if value[0] == '"' {
			value = value[1 : len(value)-1]
		}
		o[at[1]] = value
	}
	return o
}

// expire sees to it that the machine does not outlive its host for long.
func expire(text string) error {
	seconds, err := strconv.Atoi(text)
	if err != nil || seconds < 1 {
		return fmt.Errorf("lab.seconds=%q on the kernel's command line; a number of seconds from 1 on is needed", text)
	}
	time.AfterFunc(time.Duration(seconds)*time.Second, func() {
		fmt.Println("lab: time is over")
		fmt.Printf("LAB ended: time is over (%d s)\n", seconds)
		_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	})
	return nil
}
