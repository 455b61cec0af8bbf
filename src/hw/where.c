/* where.c: --cluster, --gpu and --gpus of every verb, as a cluster and the number of its
 * participating GPUs. What options leave open comes from the question's other inputs: the GPU and
 * the ranks of a trace, a log or a launch line. */
#include "hw/hw.h"

#include "base/noun.h"
#include "base/check.h"
#include "base/text.h"

/* A graph's cluster was written by lockstep, unless somebody changed it. */
static lk_status parse_origin(lk_arena *arena, const lk_where *where, lk_cluster *out,
                              lk_error *err) {
	lk_error why = {0};
	char shown[80];
	lk_status status = lk_cluster_parse_text(arena, where->origin, out, &why);
	if (status == LK_OK) return LK_OK;
	lk_fail(err, status, "graph", "its cluster \"%s\": %s",
	        lk_escape(where->origin, shown, sizeof shown), why.what);
	return lk_hint(err, "give --gpu or --cluster in place of it");
}

static lk_status parse_cluster(lk_arena *arena, const lk_where *where, lk_cluster *out, int *gpus,
                               lk_error *err) {
	LK_TRY(where->cluster ? lk_cluster_parse(arena, where->cluster, out, err)
	                      : parse_origin(arena, where, out, err));
	if (where->gpus > out->gpus) {
		lk_fail(err, LK_ERR_INPUT, "--gpus", "%d %s requested, but the cluster has %d", where->gpus,
		        lk_noun(where->gpus, "GPU", "GPUs"), out->gpus);
		return lk_hint(err, "give at most %d", out->gpus);
	}
	if (where->needed > (uint32_t)out->gpus) {
		lk_fail(err, LK_ERR_INPUT, "--cluster", "the cluster has %d %s, but there are %u ranks",
		        out->gpus, lk_noun(out->gpus, "GPU", "GPUs"), where->needed);
		return lk_hint(err, "give one with a GPU for each rank");
	}
	if (where->gpus) *gpus = where->gpus;
	else if (where->ranks && where->ranks <= (uint32_t)out->gpus) *gpus = (int)where->ranks;
	else *gpus = out->gpus;
	return LK_OK;
}

static lk_status find_device(const lk_where *where, const lk_device **out, lk_error *err) {
	*out = where->device;
	if (where->gpu) return lk_device_lookup(where->gpu, "--gpu", out, err);
	if (*out) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--gpu", "%s", where->no_gpu ? where->no_gpu : "no GPU was given");
	return lk_hint(err, "give --gpu NAME (`lockstep devices` lists them) or --cluster");
}

lk_status lk_cluster_refuse_network(const lk_cluster *cluster, const char *what, lk_error *err) {
	if (cluster->net.kind == LK_NET_FLAT) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--cluster", "the network between nodes is not modelled for %s",
	        what);
	return lk_hint(err, "leave the network out, or state its share as oversub X");
}

static lk_status where_read(lk_arena *arena, const lk_where *where, lk_cluster *out, int *gpus,
                            lk_error *err) {
	const lk_device *device;
	int taken = 0;
	if (where->cluster && where->gpu) {
		lk_fail(err, LK_ERR_INPUT, "--cluster", "--cluster and --gpu are mutually exclusive");
		return lk_hint(err, "give one of them");
	}
	if (where->cluster || (where->origin && !where->gpu)) {
		LK_TRY(parse_cluster(arena, where, out, &taken, err));
	} else {
		LK_TRY(find_device(where, &device, err));
		uint32_t ranks = where->gpus ? (uint32_t)where->gpus : where->ranks;
		if (!ranks) {
			lk_fail(err, LK_ERR_INPUT, "--gpus", "%s",
			        where->no_gpus ? where->no_gpus : "the number of GPUs was not given");
			return lk_hint(err, "give --gpus N");
		}
		if (ranks > INT32_MAX)
			return lk_fail(err, LK_ERR_INPUT, "--gpu", "%u ranks are too many", ranks);
		taken = (int)ranks;
		int domain = where->gpus ? 0 : where->domain;
		LK_TRY(lk_cluster_simple(arena, device, taken, domain < device->node_gpus ? domain : 0, 0,
		                         out, err));
	}
	if (where->power_w > 0) LK_TRY(lk_cluster_with_power(arena, out, where->power_w, out, err));
	if (where->flat) LK_TRY(lk_cluster_refuse_network(out, where->flat, err));
	LK_ASSERT(taken >= 1 && taken <= out->gpus);
	if (gpus) *gpus = taken;
	return LK_OK;
}

lk_status lk_where_count(const char **gpu, int *gpus, lk_error *err) {
	const char *said = *gpu;
	int count;
	if (!said) return LK_OK;
	LK_TRY(lk_devices_ready(err));
	*gpu = lk_gpu_split(said, &count);
	if (count > 0 && *gpus > 0 && *gpus != count) {
		lk_fail(err, LK_ERR_INPUT, "--gpu", "%s means %d GPUs, but %d are requested elsewhere",
		        said, count, *gpus);
		const lk_device *device = lk_device_find(*gpu);
		return lk_hint(err, "give the number once: --gpu %s --gpus N",
		               device ? device->name : "NAME");
	}
	if (count > 0) *gpus = count;
	return LK_OK;
}

lk_status lk_where_read(lk_arena *arena, const lk_where *where, lk_cluster *out, int *gpus,
                        lk_error *err) {
	lk_where said = *where;
	LK_TRY(lk_where_count(&said.gpu, &said.gpus, err));
	return where_read(arena, &said, out, gpus, err);
}
