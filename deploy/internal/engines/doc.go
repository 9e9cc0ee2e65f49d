// Package engines keeps the devices of a node, for containers: each container that has devices has an engine
// of its own, in a process of its own, with sockets in a directory of its own.
//
// Terms: a device is a number, from 0 on, that the kubelet gives to one container at a time. A claim is the
// devices that one container has; programs in the container see so many devices, which are all of one engine.
// The lead of a claim is its least device, which the directory is named after.
//
// A container can end, and restart, and the kubelet says nothing. It says when a container is about to start.
// So a claim's engine is made anew for each start, and the former one is ended before, with all that it had.
//
// Files, below Config.Dir:
//
//	lock            locked by the process that has the pool
//	claims.json     claims, so that the next process of the plugin goes on
//	lib/            the library that programs preload; containers have it mounted
//	users/N         locked while device N's engine is needed; an engine ends when nobody has the lock
//	devices/N/      sockets of device N's engine; the container that has N has it mounted
//
// Only root and the engines' group reach devices/. The directories in it belong to the engines' user and
// cannot be replaced by it.
package engines
