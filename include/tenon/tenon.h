/* All of Tenon's public API. */
#ifndef TENON_TENON_H
#define TENON_TENON_H

#include <tenon/draw.h>
#include <tenon/explain.h>
#include <tenon/graph.h>
#include <tenon/load.h>
#include <tenon/log.h>
#include <tenon/op.h>
#include <tenon/pass.h>
#include <tenon/pattern.h>
#include <tenon/plugin.h>
#include <tenon/pool.h>
#include <tenon/profiler.h>
#include <tenon/session.h>
#include <tenon/status.h>
#include <tenon/tensor.h>
#include <tenon/topology.h>
#include <tenon/version.h>

#endif
