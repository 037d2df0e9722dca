# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# The loopback device and its traffic control.

# FILE: a bare tc would be busybox's applet, which has no batch mode.
network_start() {
	ifconfig lo up 2>/out/.error || failed "ifconfig lo up"
	/bin/tc -batch "/job/$1" >/out/.error 2>&1 3>&- || failed tc
}
