# SPDX-License-Identifier: GPL-2.0-only
"""Boots a kernel with a topology, runs a job in it, and returns what the guest measured; it knows no claims.

Public, for the harness:

base       errors and exit codes, units, digests, the cache, the host, processes, the record of a boot
yaml       strict YAML with positions, and typed fields
topology   topologies: model, catalogue, graph, limits
kernels    from a spec to a kernel (resolve), its values (model, release, ranges), sources, mutants
native     the C programs and libraries, built and cached
session    prepare and run a boot; observers: plugins that count in it; symbols: where its kernel's functions are;
           kit: repeat it without blklab
shell      a guest to log in to
doctor     what this host offers and lacks
guest      payload and steps only
qemu       probe only: what this host's QEMU is and can do
realise    recipe, capability, hardware and inventory only: what a topology requires and what it shows

Everything else is internal: packages, observe, and the rest of guest, qemu and realise. A contract of import-linter
holds the harness to this list (pyproject.toml).
"""
