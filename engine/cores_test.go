package engine

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func files(text map[string]string) fstest.MapFS {
	m := fstest.MapFS{}
	for name, s := range text {
		m[name] = &fstest.MapFile{Data: []byte(s)}
	}
	return m
}

func TestWhyACoreIsNotAllowed(t *testing.T) {
	online := files(map[string]string{"sys/devices/system/cpu/online": "0-3,8\n"})
	for cpu, want := range map[int]string{2: "not allowed", 8: "not allowed", 4: "does not exist", 1000: "does not exist", -1: "does not exist"} {
		require.Contains(t, whyNotOn(online, cpu), want, cpu)
	}
	require.Contains(t, whyNotOn(files(nil), 2), "does not exist or is not allowed")
	var set unix.CPUSet
	for _, cpu := range []int{0, 1, 2, 5, 1023} {
		set.Set(cpu)
	}
	require.Equal(t, "0-2,5,1023", coreList(&set))
}
