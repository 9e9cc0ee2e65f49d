// This file lets blocking_unsafe.go declare functions without bodies.
