package cpu

// CanPrefetchWrite reports whether PrefetchWrite has an effect.
const CanPrefetchWrite = true
