package engine

import (
	"fmt"
	"os"
	"testing"

	"github.com/nicless/nicless/engine/internal/quota"
	"github.com/nicless/nicless/internal/shm"
	"github.com/stretchr/testify/require"
)

// Users other than the device's own cannot have regions of more bytes than there is memory.
func TestRegionsOfOthersFitIntoMemory(t *testing.T) {
	const most, behind = 3 << 18, "the memory of the device's control group is limited to 1048576 bytes"
	r := newRig(t, Config{})
	r.e.Ledger.SetLimit(quota.RegionBytes, most, behind)
	own := uint32(os.Getuid())
	_, err := r.d.nic().NewMemory(own+1, "test", most/2+shm.PageSize, shm.Create)
	require.ErrorContains(t, err, "bytes of regions")
	require.ErrorContains(t, err, behind)
	for uid, size := range map[uint32]int{own: 2 * most, own + 1: most / 2} {
		m, err := r.d.nic().NewMemory(uid, "test", size, shm.Create)
		require.NoError(t, err)
		require.NoError(t, m.Seal())
		r.d.nic().FreeMemory(uid, m)
	}
	r.until("charges are refunded", func() bool { return r.owed() == quota.Charge{} })
}

// The device's own user can have no region that is larger than the machine's memory, and nothing of
// such a region is allocated. Regions that fit may be sparse, and all of them together larger than the
// memory, but the pages that the device holds for them are counted.
func TestRegionLargerThanTheMachine(t *testing.T) {
	most, why := quota.MostRegion()
	if most >= shm.MaxRegion {
		t.Skipf("this machine has so much memory that every region fits: %s", why)
	}
	r := newRig(t, Config{})
	own := uint32(os.Getuid())
	made := 0
	create := func(name string, size int) (*shm.Region, error) {
		made++
		return shm.Create(name, size)
	}
	over := most&^(shm.PageSize-1) + shm.PageSize
	_, err := r.d.nic().NewMemory(own, "test", over, create)
	require.ErrorContains(t, err, fmt.Sprintf("region of %d bytes; at most %d are possible: %s", over, most, why))
	_, err = r.d.nic().NewMemory(own, "test", shm.MaxRegion, create)
	require.ErrorContains(t, err, why)
	require.Zero(t, made, "nothing is made, mapped or held")
	require.Equal(t, quota.Charge{}, r.owed())

	size := most / 4 &^ (shm.PageSize - 1)
	m, err := r.d.nic().NewMemory(own, "test", size, create)
	require.NoError(t, err, "a sparse region that fits")
	require.Equal(t, shm.HoldBytes(size), r.owed()[quota.HeldBytes])
	require.NoError(t, m.Seal())
	r.e.Ledger.SetLimit(quota.HeldBytes, 3*shm.HoldBytes(size)-1, "this test allows no more")
	_, err = r.d.nic().NewMemory(own, "test", size, create)
	require.ErrorContains(t, err, "bytes of memory for pages that are held")
	require.Equal(t, 1, made)
	r.d.nic().FreeMemory(own, m)
	r.until("charges are refunded", func() bool { return r.owed() == quota.Charge{} })
}
