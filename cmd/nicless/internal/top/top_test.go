//go:build linux && (amd64 || arm64)

package top

import (
	"testing"
)

func TestScreens(t *testing.T) {
	if *update {
		makeRecording(t)
	}
	for name, c := range map[string]struct {
		width, height int
		steps         []string
	}{
		"tables":  {100, 20, []string{"refresh", "tab", "tab", "refresh"}},
		"sort":    {80, 20, []string{"refresh", "N", "I", "<", "f6", "down enter", "T", "M"}},
		"filter":  {80, 20, []string{"refresh", "/ rc", "space 0x5 enter", "esc", "tab", "enter"}},
		"queue":   {80, 30, []string{"refresh", "enter", "refresh", "tab", "refresh", "up up up up", "] ] ]", "f", "esc"}},
		"ring":    {140, 24, []string{"refresh enter tab", "tab", "tab", "down"}},
		"failed":  {80, 24, []string{"refresh", "/ 0x53 enter", "enter"}},
		"help":    {80, 24, []string{"f1", "down down", "x"}},
		"narrow":  {40, 16, []string{"refresh", "tab", "tab", "tab", "enter", "tab"}},
		"low":     {80, 10, []string{"refresh", "down", "enter", "tab"}},
		"wide":    {200, 16, []string{"refresh", "tab"}},
		"gone":    {80, 14, []string{"refresh", "refresh", "refresh", "refresh", "refresh", "refresh"}},
		"paused":  {80, 14, []string{"refresh", "Z", "refresh", "Z", "refresh"}},
		"nothing": {30, 8, []string{"refresh", "enter", "tab"}},
	} {
		t.Run(name, func(t *testing.T) {
			golden(t, name, newScreen(t, load(t, recording), c.width, c.height), c.steps...)
		})
	}
}
