/* capture_read.c: a file of any format that has times: told by its content. */
#include "trace/capture.h"
#include "trace/kineto.h"

lk_status lk_capture_read(const char *path, const lk_read_limits *limits, lk_capture **out, lk_error *err) {
	static const lk_read_limits none = {.shapes = true};
	lk_stream *in;
	LK_TRY(lk_stream_open(path, &in, err));
	lk_capture *capture = lk_capture_new(path, "Kineto JSON");
	lk_status status = capture ? lk_kineto_read(in, limits ? limits : &none, capture, err) : lk_oom(err);
	if (status == LK_OK) status = lk_capture_finish(capture, err);
	lk_stream_close(in);
	if (status != LK_OK) {
		lk_capture_free(capture);
		return status;
	}
	*out = capture;
	return LK_OK;
}
