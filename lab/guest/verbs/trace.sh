# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# ftrace events of loads, in an instance of the lab.

tracing=/sys/kernel/tracing/instances/blklab

# "EVENT..."
trace_on() {
	set -f
	for event in $1; do
		printf '%s\n' "$event" 2>/out/.error >>"$tracing/set_event" || {
			cat "$tracing/../../available_events" >/out/available_events
			unfit event "$event"
		}
	done
	set +f
}

# FILE
trace_off() {
	: >"$tracing/set_event"
	gzip -c <"$tracing/trace" >"/out/$1"
	: >"$tracing/trace"
}
