package machine

import "encoding/binary"

// workspaceBytes is how large the workspace of a cooperative grid is: a word with this number, and the word
// of a barrier, at first 0. The headers of CUDA (cooperative_groups) find it by the registers %envreg1, the
// upper half of its address, and %envreg2, and take an address of 0 for a launch that was not cooperative.
// Each block that comes to the barrier adds 1, and block 0 so much that the top bit changes when all have
// come.
const workspaceBytes = 8

// newWorkspace makes the workspace of a grid, and returns its address.
func newWorkspace(a *Arena) (uint64, error) {
	address, b, err := a.Allocate(workspaceBytes, 256)
	if err != nil {
		return 0, err
	}
	binary.LittleEndian.PutUint64(b, workspaceBytes)
	return address, nil
}

// workspaceExtent is where the workspace of a grid is.
func (g *Grid) workspaceExtent() extent {
	if g.workspace == 0 {
		return extent{}
	}
	return extent{g.workspace, workspaceBytes}
}
