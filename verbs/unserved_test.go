package verbs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The numbers are those of the kernel's headers.
func TestNamesOfCalls(t *testing.T) {
	program := "#include <stdio.h>\n#include <rdma/ib_user_ioctl_cmds.h>\n#include <rdma/mlx5_user_ioctl_cmds.h>\n#include <rdma/ib_user_verbs.h>\nint main(void)\n{\n"
	var want []string
	number := func(name string, value uint32) {
		program += fmt.Sprintf("\tprintf(\"%%d\\n\", (int)%s);\n", name)
		want = append(want, fmt.Sprint(value))
	}
	for _, n := range callNames {
		number(n.objectName, uint32(n.object))
		number(n.methodName, uint32(n.method))
	}
	for _, n := range commandNames {
		number(n.name, n.number&^extended)
	}
	dir := t.TempDir()
	source, binary := filepath.Join(dir, "names.c"), filepath.Join(dir, "names")
	require.NoError(t, os.WriteFile(source, []byte(program+"}\n"), 0o600))
	said, err := exec.Command("cc", "-o", binary, source).CombinedOutput()
	if err != nil && os.Getenv("CI") != "true" {
		t.Skipf("needs a C compiler and the headers of libibverbs-dev: %s", said)
	}
	require.NoError(t, err, "%s", said)
	said, err = exec.Command(binary).Output()
	require.NoError(t, err)
	require.Equal(t, want, strings.Fields(string(said)))
}

// A program that asks for counters gets the reason why there are none.
func TestNoCounters(t *testing.T) {
	r := newRig(t)
	p := r.program()
	require.Equal(t, unix.EPROTONOSUPPORT, p.ioctl(p.ctx, 15, 0, arg{id: 0}).errno)
	require.Contains(t, unserved(15, 0), "ibv_create_counters (UVERBS_METHOD_COUNTERS_CREATE): counters count what flow steering rules")
}
