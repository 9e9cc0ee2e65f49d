/* Streams and events. */
#include "runtime.h"

API cudaError_t cudaStreamCreateWithPriority(stream_t *s, unsigned flags, int priority) {
	return DO(gpu_stream_new(current, flags, priority, s));
}

API cudaError_t cudaStreamCreateWithFlags(stream_t *s, unsigned flags) {
	return cudaStreamCreateWithPriority(s, flags, 0);
}
API cudaError_t cudaStreamCreate(stream_t *s) { return cudaStreamCreateWithPriority(s, 0, 0); }
API cudaError_t cudaStreamDestroy(stream_t s) { return DO(gpu_stream_destroy(current, s)); }
API cudaError_t cudaStreamSynchronize(stream_t s) { return DO(gpu_stream_synchronize(current, s)); }
API cudaError_t cudaStreamQuery(stream_t s) { return DO(gpu_stream_query(current, s)); }

API cudaError_t cudaStreamWaitEvent(stream_t s, event_t e, unsigned flags) {
	(void)flags;
	return DO(gpu_stream_wait(current, s, e));
}

API cudaError_t cudaStreamGetFlags(stream_t s, unsigned *flags) {
	int priority;
	return DO(gpu_stream_flags(current, s, flags, &priority));
}

API cudaError_t cudaStreamGetPriority(stream_t s, int *priority) {
	unsigned flags;
	return DO(gpu_stream_flags(current, s, &flags, priority));
}

API cudaError_t cudaLaunchHostFunc(stream_t s, void (*f)(void *), void *with) {
	return DO(gpu_call(current, s, (void *)f, with));
}

API cudaError_t cudaStreamAddCallback(stream_t s, void (*f)(stream_t, int, void *), void *with, unsigned flags) {
	return DO(gpu_add_callback(current, s, f, with, flags));
}

/* Nothing can be captured, so nothing ever is. */
API cudaError_t cudaStreamIsCapturing(stream_t s, int *status) { (void)s; *status = 0; return DO(OK); }

/* Nothing is captured, so the mode of a thread forbids nothing; it is kept for who sets it back. */
API cudaError_t cudaThreadExchangeStreamCaptureMode(int *mode) {
	static __thread int of_thread; /* cudaStreamCaptureModeGlobal */
	int before = of_thread;
	if (!mode || *mode < 0 || *mode > 2)
		return note(INVALID_VALUE);
	of_thread = *mode;
	*mode = before;
	return DO(OK);
}

/* The other results are of a capture that is going on. */
static int capture(int *status) {
	if (!status)
		return INVALID_VALUE;
	*status = 0; /* cudaStreamCaptureStatusNone */
	return OK;
}

API cudaError_t cudaStreamGetCaptureInfo_v2(stream_t s, int *status, void *id, void *graph, void *nodes,
                                            void *n) {
	(void)s; (void)id; (void)graph; (void)nodes; (void)n;
	return DO(capture(status));
}

API cudaError_t cudaStreamGetCaptureInfo_v3(stream_t s, int *status, void *id, void *graph, void *nodes,
                                            void *edges, void *n) {
	(void)s; (void)id; (void)graph; (void)nodes; (void)edges; (void)n;
	return DO(capture(status));
}

API cudaError_t cudaStreamBeginCapture(stream_t s, int mode) {
	(void)s; (void)mode;
	return DO(NOT_SUPPORTED);
}

API cudaError_t cudaEventCreateWithFlags(event_t *e, unsigned flags) {
	return DO(gpu_event_new(current, flags, e));
}
API cudaError_t cudaEventCreate(event_t *e) { return cudaEventCreateWithFlags(e, 0); }
API cudaError_t cudaEventDestroy(event_t e) { return DO(gpu_event_destroy(e)); }
API cudaError_t cudaEventRecord(event_t e, stream_t s) { return DO(gpu_event_record(e, current, s)); }
API cudaError_t cudaEventRecordWithFlags(event_t e, stream_t s, unsigned flags) {
	(void)flags;
	return cudaEventRecord(e, s);
}
API cudaError_t cudaEventSynchronize(event_t e) { return DO(gpu_event_synchronize(e)); }
API cudaError_t cudaEventQuery(event_t e) { return DO(gpu_event_query(e)); }
API cudaError_t cudaEventElapsedTime(float *ms, event_t begin, event_t end) {
	return DO(gpu_event_elapsed(begin, end, ms));
}
