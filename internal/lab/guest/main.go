//go:build linux && (amd64 || arm64)

// The first program of a machine of package lab. It loads modules, and then starts and kills
// programs as the host says through the second serial port. The machine is off when its time,
// lab.seconds= on the kernel's command line, has passed.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nicless/nicless/internal/lab"
)

func main() {
	os.Clearenv()
	_ = os.Setenv("PATH", "/usr/bin:/usr/sbin:/bin:/sbin")
	_ = os.Setenv("HOME", "/tmp")
	err := run()
	fmt.Println("lab: the first program ends:", err)
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

func run() error {
	if err := mount(); err != nil {
		return err
	}
	if err := expire(); err != nil {
		return err
	}
	port, err := openPort("/dev/ttyS1")
	if err != nil {
		return err
	}
	g := &guest{out: json.NewEncoder(port), running: make(map[int]*exec.Cmd)}
	ready := lab.Report{}
	if err := loadModules(); err != nil {
		ready.Error = err.Error()
	}
	g.report(ready)
	for in := json.NewDecoder(port); ; {
		var o lab.Order
		if err := in.Decode(&o); err != nil {
			return err
		}
		g.obey(o)
	}
}

func mount() error {
	if err := os.MkdirAll("/tmp", 0o777); err != nil {
		return err
	}
	for _, m := range [][2]string{{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tmpfs", "/run"}, {"tmpfs", "/dev/shm"}} {
		if err := os.MkdirAll(m[1], 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m[0], m[1], m[0], 0, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m[1], err)
		}
	}
	return nil
}

// expire sees to it that the machine does not outlive its host for long.
func expire() error {
	line, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return err
	}
	at := regexp.MustCompile(`\blab\.seconds=(\d+)`).FindSubmatch(line)
	if at == nil {
		return fmt.Errorf("no lab.seconds= in %q", line)
	}
	seconds, err := strconv.Atoi(string(at[1]))
	time.AfterFunc(time.Duration(seconds)*time.Second, func() {
		fmt.Println("lab: time is over")
		_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	})
	return err
}

// openPort opens a serial port for bytes as they are.
func openPort(name string) (*os.File, error) {
	fd, err := unix.Open(name, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	raw := unix.Termios{Cflag: unix.CS8 | unix.CREAD | unix.CLOCAL | unix.B115200, Ispeed: unix.B115200, Ospeed: unix.B115200}
	raw.Cc[unix.VMIN] = 1
	return os.NewFile(uintptr(fd), name), unix.IoctlSetTermios(fd, unix.TCSETS, &raw)
}

func loadModules() error {
	list, err := os.ReadFile("/modules/order")
	if err != nil {
		return err
	}
	for _, name := range strings.Fields(string(list)) {
		f, err := os.Open("/modules/" + name)
		if err != nil {
			return err
		}
		err = unix.FinitModule(int(f.Fd()), "", 0)
		_ = f.Close()
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("module %s: %w", name, err)
		}
	}
	return nil
}

// A guest runs the programs of a machine.
type guest struct {
	mu      sync.Mutex
	out     *json.Encoder
	running map[int]*exec.Cmd
}

func (g *guest) report(r lab.Report) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.out.Encode(r); err != nil {
		fmt.Println("lab: no report:", err)
	}
}

func (g *guest) obey(o lab.Order) {
	if len(o.Argv) == 0 {
		g.mu.Lock()
		defer g.mu.Unlock()
		if cmd := g.running[o.Number]; cmd != nil {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
		return
	}
	cmd := exec.Command(o.Argv[0], o.Argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	said, err := cmd.StdoutPipe()
	if err == nil {
		cmd.Stderr = cmd.Stdout
		err = cmd.Start()
	}
	if err != nil {
		g.report(lab.Report{Number: o.Number, Ended: true, Error: err.Error()})
		return
	}
	g.mu.Lock()
	g.running[o.Number] = cmd
	g.mu.Unlock()
	go g.follow(o.Number, cmd, said)
}

// follow reports what a program prints, and its end.
func (g *guest) follow(number int, cmd *exec.Cmd, said io.Reader) {
	part := make([]byte, 2048)
	for {
		n, err := said.Read(part)
		if n > 0 {
			g.report(lab.Report{Number: number, Said: part[:n]})
		}
		if err != nil {
			break
		}
	}
	end := lab.Report{Number: number, Ended: true}
	if err := cmd.Wait(); err != nil {
		end.Error = err.Error()
	}
	g.mu.Lock()
	delete(g.running, number)
	g.mu.Unlock()
	g.report(end)
}
