package guardpages

// PageSize is the unit of protection, in bytes. A buffer is protected as far as it has whole pages.
const PageSize = 4096

// A Fault is the first access to a protected page.
type Fault struct {
	Addr  uint64 // the address that was accessed
	Write bool   // the access was a store
	Owner uint64 // what Protect got with the page

	// Calls are the program counters of the access and of the calls that have led to it, innermost
	// first, in the form that runtime.CallersFrames takes. Calls further out are missing.
	Calls []uintptr
}
