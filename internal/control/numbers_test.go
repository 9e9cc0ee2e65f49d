package control_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// The protocol, the table of opcodes and verbs have the same numbers for transports and rights,
// so that the device can compare them without translation.
func TestNumbersAreThoseOfWQE(t *testing.T) {
	assert.EqualValues(t, wqe.RC, control.QPTypeRC)
	assert.EqualValues(t, wqe.UC, control.QPTypeUC)
	assert.EqualValues(t, wqe.UD, control.QPTypeUD)
	assert.EqualValues(t, wqe.RightLocalWrite, control.AccessLocalWrite)
	assert.EqualValues(t, wqe.RightRemoteWrite, control.AccessRemoteWrite)
	assert.EqualValues(t, wqe.RightRemoteRead, control.AccessRemoteRead)
	assert.EqualValues(t, wqe.RightRemoteAtomic, control.AccessRemoteAtomic)
}
