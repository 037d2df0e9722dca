# SPDX-License-Identifier: GPL-2.0-only
# Every target is one line over the console script; scripts/run sets up what is missing first.

SHELL := /bin/bash
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory

# Values go to recipes through the environment and are never expanded, neither by make nor by the shell.
values := NAME KERNEL BASE SEEDS VERIFY RESULTS RUN TREE GOOD BAD SOURCE KERNELS SCENARIOS SHARD A B TOPOLOGY
$(foreach value,$(values),$(eval override $(value) := $$(value $(value))))
export $(values)

blklab := @scripts/run blklab
named = @[ -n "$$NAME" ] || { echo "make $@: which scenario? remedy: make $@ NAME=shared-queue (make list shows them all)" >&2; exit 129; }

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup:  ## make the virtual environment and install what the host lacks
	@venv=$$(scripts/setup) && echo "blklab: ready in $$venv"

scenario:  ## run a scenario: NAME= [KERNEL=debian:6.1] [BASE=] [SEEDS=] [VERIFY=1] [RESULTS=]
	$(named)
	$(blklab) run $${KERNEL:+"--kernel=$$KERNEL"} $${BASE:+"--base=$$BASE"} $${SEEDS:+"--seeds=$$SEEDS"} $${VERIFY:+--verify} \
		$${RESULTS:+"--results=$$RESULTS"} -- "$$NAME"

list:  ## list the scenarios (blklab list --topologies: the topologies)
	$(blklab) list

show:  ## a scenario in words and exact commands, or a topology with its bounds: NAME=
	$(named)
	$(blklab) show -- "$$NAME"

shell:  ## sit in a guest on a topology's controllers, with the host's files: TOPOLOGY= [KERNEL=]
	@[ -n "$$TOPOLOGY" ] || { echo "make shell: which topology? remedy: make shell TOPOLOGY=3ware-8506" >&2; exit 129; }
	$(blklab) shell $${KERNEL:+"--kernel=$$KERNEL"} -- "$$TOPOLOGY"

judge:  ## judge a finished run again from its raw files: RUN=results/NAME/latest
	@[ -n "$$RUN" ] || { echo "make judge: which run? remedy: make judge RUN=results/shared-queue/latest" >&2; exit 129; }
	$(blklab) judge -- "$$RUN"

report:  ## write one HTML page and print its path: [RUN=results/NAME/latest | results/matrix/latest | results/NAME] [RESULTS=]
	@what=$${RUN:-$$RESULTS}; scripts/run blklab report $${what:+-- "$$what"}

calibrate:  ## the device models of a kernel against their closed forms: [KERNEL=] [RESULTS=]
	$(blklab) calibrate $${KERNEL:+"--kernel=$$KERNEL"} $${RESULTS:+"--results=$$RESULTS"}

matrix:  ## many scenarios on many kernels: [KERNELS="debian:6.1 debian:6.12"] [SCENARIOS="..."] [SEEDS=] [SHARD=1/4] [RESULTS=]
	$(blklab) matrix $${KERNELS:+"--kernels=$$KERNELS"} $${SEEDS:+"--seeds=$$SEEDS"} $${SHARD:+"--shard=$$SHARD"} \
		$${RESULTS:+"--results=$$RESULTS"} -- $${SCENARIOS:+"$$SCENARIOS"}

compare:  ## two kernels, runs or results folders, figure by figure: A=debian:6.1 B=debian:7.2 [RESULTS=]
	@[ -n "$$A" ] && [ -n "$$B" ] || { echo "make compare: which two? remedy: make compare A=debian:6.1 B=debian:7.2" >&2; exit 129; }
	$(blklab) compare $${RESULTS:+"--results=$$RESULTS"} -- "$$A" "$$B"

history:  ## a scenario's figures over days and kernel versions: NAME= [RESULTS=]
	$(named)
	$(blklab) history $${RESULTS:+"--results=$$RESULTS"} -- "$$NAME"

doctor:  ## what this host offers and what is missing, with remedies
	$(blklab) doctor

cache:  ## list what is cached and how large it is
	$(blklab) cache list

bisect:  ## the commit of a kernel tree at which a scenario's claims fail: NAME= TREE=DIR GOOD=REV BAD=REV [SEEDS=] [RESULTS=]
	$(named)
	$(blklab) bisect $${TREE:+"--tree=$$TREE"} $${GOOD:+"--good=$$GOOD"} $${BAD:+"--bad=$$BAD"} $${SEEDS:+"--seeds=$$SEEDS"} \
		$${RESULTS:+"--results=$$RESULTS"} -- "$$NAME"

selftest:  ## does the lab see what must pass, fail, oops and hang? [KERNEL=]
	$(blklab) selftest $${KERNEL:+"--kernel=$$KERNEL"}

controls:  ## build the mutants and print which scenario sees which: [SOURCE=source:6.12] [SEEDS=] [RESULTS=]
	@scripts/host-packages --build
	$(blklab) controls $${SOURCE:+"--source=$$SOURCE"} $${SEEDS:+"--seeds=$$SEEDS"} $${RESULTS:+"--results=$$RESULTS"}

zoo:  ## docs/results/zoo.md: published regressions on stock kernels and mutants, and kernels against themselves: [KERNELS="..."] [RESULTS=]
	$(blklab) zoo $${KERNELS:+"--kernels=$$KERNELS"} $${RESULTS:+"--results=$$RESULTS"}

schema:  ## print the JSON schema of scenario files, for editors
	$(blklab) schema

check:  ## types, style, import directions, shell files
	@scripts/run --dev scripts/check

test: check  ## check, then all tests but the slow ones
	@scripts/run --dev pytest -m 'not slow'

test-all: check  ## check, then every test
	@scripts/run --dev pytest

bench:  ## how long a warm shared-queue takes, and where the time goes
	@scripts/bench

lock:  ## pin the newest requirements, with hashes, again
	@scripts/lock

clean:  ## remove the virtual environments and caches of tools (not the results)
	@rm -rf .venv .venv-* .venv.lock .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +

.PHONY: help setup scenario list show shell judge report calibrate matrix compare history doctor cache bisect selftest controls zoo schema check test test-all bench lock clean
