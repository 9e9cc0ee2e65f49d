package devx

import "fmt"

// A Status says whether a command was executed, and why not: the first byte of its answer.
type Status uint8

// Values of a status (MLX5_CMD_STAT_* of the kernel's include/linux/mlx5/device.h).
const (
	StatusOK               Status = 0x00
	StatusInternal         Status = 0x01
	StatusBadOpcode        Status = 0x02
	StatusBadParameter     Status = 0x03
	StatusBadSystemState   Status = 0x04
	StatusBadResource      Status = 0x05
	StatusResourceBusy     Status = 0x06
	StatusLimit            Status = 0x08
	StatusBadResourceState Status = 0x09
	StatusBadIndex         Status = 0x0a
	StatusNoResources      Status = 0x0f
	StatusBadQPState       Status = 0x10
	StatusBadPacket        Status = 0x30
	StatusBadSize          Status = 0x40
	StatusBadInputLength   Status = 0x50
	StatusBadOutputLength  Status = 0x51
)

// statuses has the names that the kernel prints, and what they mean.
var statuses = []struct {
	Status
	name, text string
}{
	{StatusOK, "ok", "the command was executed"},
	{StatusInternal, "internal error", "internal error"},
	{StatusBadOpcode, "bad opcode", "there is no such command"},
	{StatusBadParameter, "bad parameter", "a field has a value that is not possible"},
	{StatusBadSystemState, "bad system state", "not possible in the present state of the device"},
	{StatusBadResource, "bad resource", "an object that the command names does not exist or is of another kind"},
	{StatusResourceBusy, "resource busy", "the object is in use"},
	{StatusLimit, "limit exceeded", "more than the device's limits allow"},
	{StatusBadResourceState, "bad resource state", "not possible in the object's present state"},
	{StatusBadIndex, "bad index", "an index that does not exist"},
	{StatusNoResources, "no resources", "no memory or no objects left"},
	{StatusBadQPState, "bad QP state", "not possible in the queue pair's present state"},
	{StatusBadPacket, "bad packet", "the packet is wrong"},
	{StatusBadSize, "bad size", "a size that is not possible"},
	{StatusBadInputLength, "bad input length", "the command is too short"},
	{StatusBadOutputLength, "bad output length", "the room for the answer is too small"},
}

var statusNames, statusTexts = make(map[Status]string), make(map[uint64]string)

func init() {
	for _, s := range statuses {
		statusNames[s.Status], statusTexts[uint64(s.Status)] = s.name, s.text
	}
}

// String returns the name that the kernel prints: "bad parameter".
func (s Status) String() string {
	if name := statusNames[s]; name != "" {
		return name
	}
	return fmt.Sprintf("status %#x", uint8(s))
}
