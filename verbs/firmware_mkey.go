//go:build linux && (amd64 || arm64)

package verbs

import (
	"encoding/binary"
	"errors"

	"github.com/nicless/nicless/field/devx"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/wqe"
)

// listAt is where the entries of a list begin in CREATE_MKEY.
const listAt = 0x110

// createMkey serves CREATE_MKEY, for a key that is a list. As mlx5dv_create_mkey sends it, the list is empty
// until a work request (UMR) fills it; a context with firmware commands can also give the entries in the
// command. The answer is the index of the key. The library takes the key's variant to be 0; it gives the
// variant anew in each UMR, and until the first one the device compares no variant.
func createMkey(c *call, cmd []byte) error {
	x := c.x
	if least := devx.KeyCrypto.End(); len(cmd) < least {
		return refuse(eINVAL, "CREATE_MKEY of %d bytes; at least %d are needed", len(cmd), least)
	}
	list, err := keyInCommand(cmd)
	if err != nil {
		return err
	}
	pdn := uint32(devx.KeyPD.Get(cmd))
	domain := x.domains[pdn]
	if domain == nil {
		return refuse(eINVAL, "CREATE_MKEY: PD number %#x: this context has none", pdn)
	}
	if err := x.chargeObject(); err != nil {
		return err
	}
	room := max(uint32(devx.KeyEntries.Get(cmd)), uint32(len(list.Entries)))
	a, _, err := x.request(control.OpCreateMkey, &control.Mkey{PDN: domain.number, Entries: room})
	if err != nil {
		x.refundObject()
		return err
	}
	key := a.(*control.Key).Key
	dereg := func() error { return x.command(control.OpDeregMR, &control.Key{Key: key}) }
	if err := x.client.CompleteList(key, list); err != nil {
		x.refundObject()
		return errors.Join(err, dereg())
	}
	c.putMade(x.add(kindDEVX, key, dereg, nil, domain.object), devx.NewMkey, key>>8)
	return nil
}

// keyInCommand returns what CREATE_MKEY says about its list.
func keyInCommand(cmd []byte) (list nic.ListKey, err error) {
	mode, entries := devx.KeyMode.Get(cmd), devx.KeyActual.Get(cmd)
	switch {
	case devx.KeyModeHigh.On(cmd) || mode != devx.ModeKLM && mode != devx.ModeKSM:
		return list, refuse(eINVAL, "CREATE_MKEY: access mode %d; only lists (KLM, 2, and KSM, 3) are possible", devx.KeyModeHigh.Get(cmd)<<2|mode)
	case devx.KeyFree.On(cmd) && (!devx.KeyUMR.On(cmd) || mode != devx.ModeKLM || entries != 0):
		return list, refuse(eINVAL, "CREATE_MKEY: a free key of access mode %d, umr_en %d, with %d entries; a work request has to fill it, with a list (KLM)",
			mode, devx.KeyUMR.Get(cmd), entries)
	case !devx.KeyFree.On(cmd) && entries == 0:
		return list, refuse(eINVAL, "CREATE_MKEY: a key without entries that is not free; work requests fill only free keys")
	case devx.KeyWhole.On(cmd):
		return list, refuse(eINVAL, "CREATE_MKEY: a list of the whole address space (length64); it needs a length")
	case !devx.KeyFree.On(cmd) && devx.KeyQPN.Get(cmd) != devx.KeyQPN.Most():
		return list, refuse(eINVAL, "CREATE_MKEY: a key for queue pair %#x alone; %#x, for all, is possible", devx.KeyQPN.Get(cmd), devx.KeyQPN.Most())
	case devx.KeyInUmem.On(cmd):
		return list, refuse(eINVAL, "CREATE_MKEY: the list is in a umem; it has to be in the command")
	case devx.KeyBSF.On(cmd) || devx.KeyBSFSize.On(cmd):
		return list, refuse(eOPNOTSUPP, "CREATE_MKEY: signatures are not possible")
	case devx.KeyCrypto.On(cmd):
		return list, refuse(eOPNOTSUPP, "CREATE_MKEY: encryption is not possible")
	case entries*wqe.KLMSize > uint64(max(len(cmd), listAt)-listAt):
		return list, refuse(eINVAL, "CREATE_MKEY of %d bytes with %d entries of %d bytes; they begin at byte %d", len(cmd), entries, wqe.KLMSize, listAt)
	}
	list = nic.ListKey{Invalidate: devx.KeyInvalidate.On(cmd),
		Start: devx.KeyStart.Get(cmd), Length: devx.KeyLength.Get(cmd),
		Access: accessIn(cmd, devx.KeyReads, devx.KeyWrites, devx.KeyAtomics)}
	if devx.KeyLocalWrite.On(cmd) {
		list.Access |= control.AccessLocalWrite
	}
	left := list.Length
	for i := range int(entries) {
		at := cmd[listAt+i*wqe.KLMSize:]
		e := nic.ListEntry{Key: binary.BigEndian.Uint32(at[4:]), Addr: binary.BigEndian.Uint64(at[8:]),
			N: uint64(binary.BigEndian.Uint32(at))}
		if mode == devx.ModeKSM {
			// Entries are of equal size, and their first word is not used. The last one may be longer than
			// the memory that it names, as far as the key does not reach there.
			e.N = min(1<<devx.KeyLogEntity.Get(cmd), max(left, 1))
			left -= min(left, e.N)
		}
		list.Entries = append(list.Entries, e)
	}
	return list, nil
}
