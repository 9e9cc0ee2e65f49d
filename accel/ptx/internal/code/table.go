package code

// instructions turn those into instructions that are not only a function of their operands.
var instructions map[string]func(*lowering)

func init() {
	instructions = map[string]func(*lowering){
		"mov": (*lowering).move, "setp": (*lowering).setPredicate,
		"bfi": (*lowering).insertField, "lop3": (*lowering).logic3,
		"addc": (*lowering).carried, "subc": (*lowering).carried, "madc": (*lowering).carried,
		"add": (*lowering).maybeCarried, "sub": (*lowering).maybeCarried, "mad": (*lowering).maybeCarried,

		"ld": (*lowering).load, "ldu": (*lowering).load, "st": (*lowering).storeTo,
		"atom": (*lowering).atomic, "red": (*lowering).atomic,
		"fence": (*lowering).fence, "membar": (*lowering).fence,
		"cvta": (*lowering).convertAddress, "isspacep": (*lowering).inSpace,
		"mbarrier": (*lowering).mbarrier, "cp": (*lowering).copyAsync,
		"prefetch": (*lowering).hint, "prefetchu": (*lowering).hint, "discard": (*lowering).hint,
		"applypriority": (*lowering).hint, "pmevent": (*lowering).hint, "setmaxnreg": (*lowering).hint,
		"griddepcontrol": (*lowering).hint,

		"bra": (*lowering).branch, "brx": (*lowering).branchIndex,
		"call": (*lowering).call, "ret": (*lowering).ret,
		"exit": plain(Exit), "trap": plain(Trap), "brkpt": plain(Touch), "nanosleep": (*lowering).sleep,

		"shfl": (*lowering).shuffle, "vote": (*lowering).vote, "match": (*lowering).match,
		"redux": (*lowering).reduce, "elect": (*lowering).elect, "activemask": (*lowering).activeMask,
		"bar": (*lowering).barrier, "barrier": (*lowering).barrier,
	}
}
