package programs

import (
	"regexp"
	"testing"

	"github.com/nicless/nicless/internal/freeport"
	"github.com/stretchr/testify/require"
)

// A program that makes a mistake gets an explanation, whether this module refuses the call or libmlx5 does. A
// refusal of libmlx5 is only likely, and is reported only if the program fails.
func TestMistakesAreExplained(t *testing.T) {
	t.Parallel()
	path := check(t, "mistake")
	l := newLab(t, "--explain")
	const explained, likely = "nicless: explanation: ", "nicless: likely: "
	for _, c := range []struct{ mistake, begins, says string }{
		{"flow", explained, "refused with EOPNOTSUPP: ibv_create_flow (IB_USER_VERBS_EX_CMD_CREATE_FLOW): this device does not have it"},
		{"variable", explained, "refused with EPROTONOSUPPORT: mlx5dv_alloc_var (MLX5_IB_METHOD_VAR_OBJ_ALLOC): this device does not have it"},
		{"work-queue", explained, "refused with EOPNOTSUPP: ibv_create_wq (IB_USER_VERBS_EX_CMD_CREATE_WQ): this device does not have it"},
		{"firmware", likely, "mlx5dv_open_device with MLX5DV_CONTEXT_FLAGS_DEVX was refused with EINVAL, because the program may not have firmware commands (DEVX)"},
		{"inline", likely, "its last call here was CQ.CREATE. "},
		{"inline", likely, "Likely: ibv_create_qp, if it asks for more than"},
		{"address", likely, "Likely: ibv_create_ah, if the address has no GID (is_global 0)"},
		{"state", likely, "no queue pair of the program reached RTS; or ibv_post_send before RTS (ENOMEM)"},
	} {
		l.flags = []string{"--explain", map[bool]string{true: "--no-devx", false: "--devx"}[c.mistake == "firmware"]}
		p := l.start(path, c.mistake)
		said := p.fails()
		require.Contains(t, said, c.begins, c.mistake)
		require.Contains(t, said, c.says, c.mistake)
		other := explained
		if c.begins == explained {
			other = likely
		}
		require.NotContains(t, said, other, c.mistake)
	}
	for _, mistake := range []string{"inline", "address", "nothing"} {
		said := l.run(path, mistake, "forgive")
		require.NotContains(t, said, likely, mistake)
		require.NotContains(t, said, explained, mistake)
	}
}

// A program that polls an error gets the reason beside its own message: which work request of which queue
// pair, and what was wrong. None of many is left out.
func TestFailedCompletionsAreExplained(t *testing.T) {
	t.Parallel()
	path := check(t, "mistake")
	l := newLab(t, "--explain")
	own := regexp.MustCompile(`(?m)^mistake: qp (\w+): remote access error$`)
	for which, n := range map[string]int{"write": 1, "writes": 100} {
		said := l.start(path, which).fails()
		failed := own.FindAllStringSubmatch(said, -1)
		require.Len(t, failed, n, said)
		for _, m := range failed {
			require.Regexp(t, `nicless: explanation: pid \d+: nicless0: qp 0x`+m[1]+` wqe 0: RDMA_WRITE: rkey 0x\w+ gives `+
				`local write\+remote read, remote write is needed \(key-access\)\n`, said)
		}
		require.NotContains(t, said, "left out")
	}
}

// Programs that fail before they use the device get a report of what nicless has seen of them.
func TestFailuresBeforeTheDeviceIsUsed(t *testing.T) {
	t.Parallel()
	need(t, "ib_write_bw")
	l := newLab(t, "--explain")
	said := l.start("ib_write_bw", "-d", "mlx5_0").fails()
	require.Contains(t, said, "it looked for devices and opened none of them; it could have opened nicless0")
	said = l.start("ib_write_bw", "-d", "nicless0", "-p", itoa(freeport.TCP(t)), "127.0.0.1").fails()
	require.Contains(t, said, "Likely: something outside of the device, such as a connection by TCP to a peer that is not running")
}

// Programs that look for devices where only hardware is get a report of where the device is.
func TestSearchesInVain(t *testing.T) {
	t.Parallel()
	l := newLab(t, "--explain")
	for _, c := range []struct{ line, says string }{
		{"ls /sys/bus/pci/devices /sys/class/infiniband; false", "it read a list of PCI functions (/sys/bus/pci), which is the kernel's: only /sys/class/infiniband/nicless0/device leads to"},
		{"ls /sys/class/infiniband /sys/bus/pci/drivers/mlx5_core", "it read a list of PCI functions"},
		{"ls /sys/class/net/lo/device/infiniband /sys/class/infiniband", "/sys/class/infiniband/nicless0/ports/1/gid_attrs/ndevs names the interface of each address"},
	} {
		require.Contains(t, l.start("sh", "-c", c.line).fails(), c.says, "%s", c.line)
	}
	said := l.start("sh", "-c", "ls /sys/bus/pci/slots /sys/class/net/lo; ibv_devices; false").fails()
	require.NotContains(t, said, "PCI functions")
	require.NotContains(t, said, "network interface")
	require.Contains(t, l.run("cat", "/sys/class/infiniband/nicless0/device/vendor"), "0x15b3")
	require.NotEmpty(t, l.run("ls", "/sys/class/infiniband/nicless0/ports/1/gid_attrs/ndevs"))
}

// A child of vfork changes its directory, in the memory of its parent, before the parent has used a device.
func TestSearchOfAVforkedChild(t *testing.T) {
	t.Parallel()
	need(t, "python3")
	l := newLab(t)
	for _, dir := range []string{"/sys/bus/pci/devices", "/sys/class/infiniband"} {
		l.run("python3", "-c", `import os, subprocess, sys
subprocess.run(["true"], cwd=sys.argv[1])
os.close(os.open("/dev/infiniband/uverbs0", os.O_RDWR))`, dir)
	}
}
