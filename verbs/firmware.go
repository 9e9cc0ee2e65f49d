//go:build linux && (amd64 || arm64)

package verbs

import (
	"encoding/binary"
	"errors"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/verbs/internal/abi"
)

// Firmware commands (DEVX). A program that has asked for a context with firmware commands gets
// none (getContext). In other contexts the kernel allows some queries. The other commands that
// are served here are those that libmlx5 sends in such a context by itself, to do what a
// function of its interface promises. The kernel refuses them with EINVAL.
//
// A command is big-endian. It begins with its number, and its answer with a status, which is
// 0. The layouts are those of mlx5_ifc.h.

// Numbers of commands (MLX5_CMD_OP_*).
const (
	cmdQueryHCACap          = 0x100
	cmdCreateMkey           = 0x200
	cmdRTS2RTS              = 0x505
	cmdQueryESWVportContext = 0x752
	cmdQueryHCAVportContext = 0x762
	cmdCreateGeneralObject  = 0xa00
)

// cmdInSize is how many bytes every command has.
const cmdInSize = 16

// devxOther answers firmware commands that make no object.
func devxOther(c *call) error {
	cmd := c.bytes(abi.MLX5AttrDEVXOtherCmdIn)
	switch op := binary.BigEndian.Uint16(cmd); op {
	case cmdQueryHCACap:
		return queryHCACap(c, cmd)
	case cmdQueryESWVportContext, cmdQueryHCAVportContext:
		return refuse(eOPNOTSUPP, "firmware command %#x: there is no embedded switch", op)
	default:
		return refuse(eINVAL, "firmware command %#x: the context was opened without firmware commands (DEVX)", op)
	}
}

// createFirmwareObject serves MLX5_DEVX_OBJ.CREATE.
func createFirmwareObject(c *call) error {
	cmd := c.bytes(abi.MLX5AttrDEVXObjCreateCmdIn)
	switch op := binary.BigEndian.Uint16(cmd); op {
	case cmdCreateMkey:
		return createMkey(c, cmd)
	case cmdCreateGeneralObject:
		return createGeneralObject(c, cmd)
	default:
		return refuse(eINVAL, "firmware command %#x: the context was opened without firmware commands (DEVX)", op)
	}
}

// The memory key context (mkc) in CREATE_MKEY: offsets of its words, and their bits.
const (
	mkcAt        = 0x10 // offset in the command
	mkcFlags     = mkcAt
	mkcPD        = mkcAt + 0xc
	mkcBSF       = mkcAt + 0x20
	mkcEntries   = mkcAt + 0x34
	mkcCrypto    = mkcAt + 0x3c
	mkcSize      = mkcAt + 0x40
	actualSizeAt = 0x64 // translations_octword_actual_size

	mkcFree       = 1 << 30
	mkcUMR        = 1 << 15
	mkcModeHigh   = 7 << 26 // access_mode_4_2
	mkcMode       = 3 << 8  // access_mode_1_0
	mkcModeKLM    = 2 << 8
	mkcBSFOn      = 1 << 30
	mkcInvalidate = 1 << 24 // en_rinval
	mkcPDMask     = 1<<24 - 1
	mkcCryptoMask = 3 << 27
)

// createMkey serves CREATE_MKEY as mlx5dv_create_mkey sends it: for a key that is a list, and
// that is empty until a work request (UMR) fills it. The answer is the index of the key. The
// library takes the key's variant to be 0; it gives the variant anew in each UMR, and until
// the first one the device compares no variant.
func createMkey(c *call, cmd []byte) error {
	if len(cmd) < mkcSize {
		return refuse(eINVAL, "CREATE_MKEY of %d bytes; at least %d are needed", len(cmd), mkcSize)
	}
	be := binary.BigEndian
	flags, pdWord, entries := be.Uint32(cmd[mkcFlags:]), be.Uint32(cmd[mkcPD:]), be.Uint32(cmd[mkcEntries:])
	switch {
	case flags&mkcFree == 0 || flags&mkcUMR == 0:
		return refuse(eINVAL, "CREATE_MKEY: flags %#x; only keys that are free and are filled by work requests are possible", flags)
	case flags&(mkcMode|mkcModeHigh) != mkcModeKLM:
		return refuse(eINVAL, "CREATE_MKEY: flags %#x; only lists (KLM) are possible", flags)
	case pdWord&mkcBSFOn != 0 || be.Uint32(cmd[mkcBSF:]) != 0:
		return refuse(eOPNOTSUPP, "CREATE_MKEY: signatures are not possible")
	case be.Uint32(cmd[mkcCrypto:])&mkcCryptoMask != 0:
		return refuse(eOPNOTSUPP, "CREATE_MKEY: encryption is not possible")
	case len(cmd) >= actualSizeAt+4 && be.Uint32(cmd[actualSizeAt:]) != 0:
		return refuse(eINVAL, "CREATE_MKEY: %d units of a list; a work request has to fill the list", be.Uint32(cmd[actualSizeAt:]))
	}
	domain := c.x.domains[pdWord&mkcPDMask]
	if domain == nil {
		return refuse(eINVAL, "CREATE_MKEY: PD number %#x: this context has none", pdWord&mkcPDMask)
	}
	x := c.x
	if err := x.chargeObject(); err != nil {
		return err
	}
	a, _, err := x.request(control.OpCreateMkey, &control.Mkey{PDN: domain.number, Entries: entries})
	if err != nil {
		x.refundObject()
		return err
	}
	key := a.(*control.Key).Key
	dereg := func() error { return x.command(control.OpDeregMR, &control.Key{Key: key}) }
	if pdWord&mkcInvalidate != 0 {
		if err := x.client.CompleteList(key, nic.ListKey{Invalidate: true}); err != nil {
			x.refundObject()
			return errors.Join(err, dereg())
		}
	}
	o := x.add(kindDEVX, key, dereg, nil, domain.object)
	out := make([]byte, cmdOutSize)
	be.PutUint32(out[8:], key>>8)
	c.putHandle(abi.MLX5AttrDEVXObjCreateHandle, o)
	c.put(abi.MLX5AttrDEVXObjCreateCmdOut, out)
	return nil
}
