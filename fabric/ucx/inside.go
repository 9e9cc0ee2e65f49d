package ucx

// program is the program nicless-ucx in a build with -tags shim; otherwise it is empty.
var program []byte
