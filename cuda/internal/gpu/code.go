//go:build linux && (amd64 || arm64)

package gpu

// A Code is an error of CUDA's runtime, by its number; most are those of the driver too.
type Code int32

// The codes that this package returns.
const (
	Success                Code = 0
	InvalidValue           Code = 1
	OutOfMemory            Code = 2
	NotInitialized         Code = 3
	InvalidConfiguration   Code = 9
	InvalidSymbol          Code = 13
	InvalidMemcpyDirection Code = 21
	InvalidDeviceFunction  Code = 98
	NoDevice               Code = 100
	InvalidDevice          Code = 101
	InvalidKernelImage     Code = 200
	InvalidContext         Code = 201
	AlreadyMapped          Code = 208
	NoKernelImage          Code = 209
	InvalidPTX             Code = 218
	SymbolNotFound         Code = 500
	InvalidHandle          Code = 400
	NotReady               Code = 600
	IllegalAddress         Code = 700
	LaunchOutOfResources   Code = 701
	PeerAccessEnabled      Code = 704
	PeerAccessNotEnabled   Code = 705
	ContextIsDestroyed     Code = 709
	AssertFailed           Code = 710
	AlreadyRegistered      Code = 712
	NotRegistered          Code = 713
	MisalignedAddress      Code = 716
	LaunchFailure          Code = 719
	CooperativeTooLarge    Code = 720
	NotSupported           Code = 801
	Unknown                Code = 999
)

// texts are the names and the descriptions of codes.
var texts = map[Code][2]string{
	Success:                {"cudaSuccess", "no error"},
	InvalidValue:           {"cudaErrorInvalidValue", "invalid argument"},
	OutOfMemory:            {"cudaErrorMemoryAllocation", "out of memory"},
	NotInitialized:         {"cudaErrorInitializationError", "initialization error"},
	InvalidConfiguration:   {"cudaErrorInvalidConfiguration", "invalid configuration argument"},
	InvalidSymbol:          {"cudaErrorInvalidSymbol", "invalid device symbol"},
	InvalidMemcpyDirection: {"cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"},
	InvalidDeviceFunction:  {"cudaErrorInvalidDeviceFunction", "invalid device function"},
	NoDevice:               {"cudaErrorNoDevice", "no CUDA-capable device is detected"},
	InvalidDevice:          {"cudaErrorInvalidDevice", "invalid device ordinal"},
	InvalidKernelImage:     {"cudaErrorInvalidKernelImage", "device kernel image is invalid"},
	InvalidContext:         {"cudaErrorDeviceUninitialized", "invalid device context"},
	AlreadyMapped:          {"cudaErrorAlreadyMapped", "resource already mapped"},
	NoKernelImage:          {"cudaErrorNoKernelImageForDevice", "no kernel image is available for execution on the device"},
	InvalidPTX:             {"cudaErrorInvalidPtx", "a PTX JIT compilation failed"},
	SymbolNotFound:         {"cudaErrorSymbolNotFound", "named symbol not found"},
	InvalidHandle:          {"cudaErrorInvalidResourceHandle", "invalid resource handle"},
	NotReady:               {"cudaErrorNotReady", "device not ready"},
	IllegalAddress:         {"cudaErrorIllegalAddress", "an illegal memory access was encountered"},
	LaunchOutOfResources:   {"cudaErrorLaunchOutOfResources", "too many resources requested for launch"},
	PeerAccessEnabled:      {"cudaErrorPeerAccessAlreadyEnabled", "peer access is already enabled"},
	PeerAccessNotEnabled:   {"cudaErrorPeerAccessNotEnabled", "peer access has not been enabled"},
	ContextIsDestroyed:     {"cudaErrorContextIsDestroyed", "context is destroyed"},
	AssertFailed:           {"cudaErrorAssert", "device-side assert triggered"},
	AlreadyRegistered:      {"cudaErrorHostMemoryAlreadyRegistered", "part or all of the requested memory range is already mapped"},
	NotRegistered:          {"cudaErrorHostMemoryNotRegistered", "pointer does not correspond to a registered memory region"},
	MisalignedAddress:      {"cudaErrorMisalignedAddress", "misaligned address"},
	LaunchFailure:          {"cudaErrorLaunchFailure", "unspecified launch failure"},
	CooperativeTooLarge:    {"cudaErrorCooperativeLaunchTooLarge", "too many blocks in cooperative launch"},
	NotSupported:           {"cudaErrorNotSupported", "operation not supported"},
	Unknown:                {"cudaErrorUnknown", "unknown error"},
}

// Name returns the name of a code in CUDA's headers.
func (c Code) Name() string {
	if t, ok := texts[c]; ok {
		return t[0]
	}
	return "unrecognized error code"
}

// Text returns what cudaGetErrorString says.
func (c Code) Text() string {
	if t, ok := texts[c]; ok {
		return t[1]
	}
	return "unrecognized error code"
}
