package devx

// The context of a memory key, in CREATE_MKEY.
var (
	mkc = &Group{Name: "mkc", At: 0x10, Context: true}

	KeyFree          = mkc.bits("free", 0x00, 30, 30, "the key is not valid yet; a work request (UMR) makes it so")
	KeyModeHigh      = mkc.bits("access_mode_4_2", 0x00, 28, 26, "kind of the key, upper bits")
	KeyOtherPD       = mkc.bits("alter_pd_to_vhca_id", 0x00, 25, 25, "the key belongs to another function instead of a protection domain")
	KeyCrossed       = mkc.bits("crossed_side_mkey", 0x00, 24, 24, "the key is that of another function")
	KeyRelaxed       = mkc.bits("relaxed_ordering_write", 0x00, 18, 18, "writes may pass each other")
	KeyFence         = mkc.bits("small_fence_on_rdma_read_response", 0x00, 16, 16, "answers of READs wait for earlier writes")
	KeyUMR           = mkc.bits("umr_en", 0x00, 15, 15, "work requests may change the key")
	KeyAtomics       = mkc.bits("a", 0x00, 14, 14, "peers may do atomics")
	KeyWrites        = mkc.bits("rw", 0x00, 13, 13, "peers may WRITE")
	KeyReads         = mkc.bits("rr", 0x00, 12, 12, "peers may READ")
	KeyLocalWrite    = mkc.bits("lw", 0x00, 11, 11, "the own queue pairs may write")
	KeyLocalRead     = mkc.bits("lr", 0x00, 10, 10, "the own queue pairs may read")
	KeyMode          = mkc.bits("access_mode_1_0", 0x00, 9, 8, "kind of the key", keyModeNames)
	KeyQPN           = mkc.bits("qpn", 0x04, 31, 8, "the queue pair that may use the key; 0xffffff: all")
	KeyVariant       = mkc.bits("mkey_7_0", 0x04, 7, 0, "variant: the key's lowest 8 bits")
	KeyWhole         = mkc.bits("length64", 0x0c, 31, 31, "the key has the whole address space")
	KeyBSF           = mkc.bits("bsf_en", 0x0c, 30, 30, "signatures of blocks")
	KeySync          = mkc.bits("sync_umr", 0x0c, 29, 29, "work requests that change the key are waited for")
	KeySigErrors     = mkc.bits("expected_sigerr_count", 0x0c, 26, 26, "expected state of the count of signature errors")
	KeyInvalidate    = mkc.bits("en_rinval", 0x0c, 24, 24, "a peer may invalidate the key")
	KeyPD            = mkc.bits("pd", 0x0c, 23, 0, "number of the protection domain")
	KeyStart         = mkc.word("start_addr", 0x10, "address at which the key begins")
	KeyLength        = mkc.word("len", 0x18, "bytes of the key")
	KeyBSFSize       = mkc.bits("bsf_octword_size", 0x20, 31, 0, "size of the signatures, in 16 bytes")
	KeyOtherFunction = mkc.bits("crossing_target_gvmi_id", 0x30, 31, 16, "the other function, of a key of kind 6")
	KeyEntries       = mkc.bits("translations_octword_size", 0x34, 31, 0, "entries of the list, of 16 bytes each")
	KeyRelaxedRd     = mkc.bits("relaxed_ordering_read", 0x38, 6, 6, "reads may pass each other")
	KeyLogEntity     = mkc.bits("log_entity_size", 0x38, 5, 0, "logarithm of the bytes of a part (KSM) or a page")
	KeyCrypto        = mkc.bits("crypto_en", 0x3c, 28, 27, "encryption")

	keyList       = &Group{Name: "list of a key"}
	KeyInput      = keyList.bits("input_mkey_index", 0x08, 23, 0, "index of the key that is wanted; 0: any")
	KeyPageAccess = keyList.bits("pg_access", 0x0c, 31, 31, "pages may be absent (ODP)")
	KeyInUmem     = keyList.bits("mkey_umem_valid", 0x0c, 30, 30, "the list is in a umem")
	KeyOnBehalf   = keyList.bits("cmd_on_behalf", 0x0c, 29, 29, "the key is for function_id")
	KeyFunction   = keyList.bits("function_id", 0x0c, 15, 0, "the function that the key is for")
	KeyActual     = keyList.bits("translations_octword_actual_size", 0x60, 31, 0, "entries of the list that the command has, of 16 bytes each")
	KeyUmem       = keyList.bits("mkey_umem_id", 0x64, 31, 0, "number of the umem that has the list")
	KeyUmemAt     = keyList.word("mkey_umem_offset", 0x68, "where in the umem the list begins, in bytes")
)

// Values of KeyMode, with KeyModeHigh 0.
const (
	ModePA  = 0
	ModeMTT = 1
	ModeKLM = 2
	ModeKSM = 3
)
