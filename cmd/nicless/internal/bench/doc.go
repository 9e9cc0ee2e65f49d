// Package bench measures what it costs to move bytes through a device, beside
// the floor: what the same two cores take at least for the same movement of
// cache lines, with nothing checked and nobody's protocol kept.
//
// Terms: a run is one sample, the mean over many operations; a value is the
// median of the runs; 1 MB is 1e6 bytes. Latency is from before a work request
// is posted until its completion has been polled, one at a time. Each run of
// the device is preceded by one of the floor, on the same cores, so that both
// see the machine in the same state, and ratios are taken run by run.
//
// Every byte that is moved in a measurement is compared afterwards with what
// was to be moved.
package bench
