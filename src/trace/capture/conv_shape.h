/* conv_shape.h: the shape of a convolution's result, which its inputs alone do not tell. */
#ifndef LK_TRACE_CONV_SHAPE_H
#define LK_TRACE_CONV_SHAPE_H

#include <stdbool.h>
#include <stddef.h>

/* Of a forward convolution of PyTorch: from the shapes of its inputs and the values of its other arguments ("Concrete
 * Inputs", "[,,,[2,2],[3,3],[1,1],False,[0,0],1]": stride, padding, dilation) the shapes of its results,
 * "[[32,64,112,112]]". False: no convolution, or arguments that do not fit. */
bool lk_conv_result(const char *name, const char *dims, const char *values, char *out, size_t size);

#endif
