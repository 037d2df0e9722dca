# SPDX-License-Identifier: GPL-2.0-only
# Targets call the console script; scripts/run first installs what is missing.

SHELL := /bin/bash
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory

# Values reach the recipes through the environment and are expanded neither by make nor by the shell.
values := NAME KERNEL BASE SEEDS VERIFY RESULTS RUN TREE GOOD BAD SOURCE KERNELS SCENARIOS SHARD A B TOPOLOGY
$(foreach value,$(values),$(eval override $(value) := $$(value $(value))))
export $(values)

# Tests on all cores, a module at a time; those that boot kernels run one after another, last (tests/conftest.py).
parallel := -n logical --dist loadfile --no-loadscope-reorder
coverage := $(if $(COVERAGE),--cov --cov-report=xml --cov-report=term:skip-covered)

blklab := @scripts/run blklab
tool := scripts/run python -m tools
named = @[ -n "$$NAME" ] || { echo "make $@: which scenario? remedy: make $@ NAME=shared-queue (make list shows the names)" >&2; exit 129; }

# "##" describes a target of the first list, "##+" one of the second.
help:
	@echo "Most useful:"; awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo "Others:"; awk -F ':.*##[+] ' '/^[a-z-]+:.*##[+] / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo "blklab --help (in .venv/bin, or scripts/run blklab --help) lists all commands."

scenario:  ## run a scenario: NAME= [KERNEL=debian:6.1] [BASE=] [SEEDS=] [VERIFY=1] [RESULTS=]
	$(named)
	$(blklab) run $${KERNEL:+"--kernel=$$KERNEL"} $${BASE:+"--base=$$BASE"} $${SEEDS:+"--seeds=$$SEEDS"} $${VERIFY:+--verify} \
		$${RESULTS:+"--results=$$RESULTS"} -- "$$NAME"

list:  ## list the scenarios
	$(blklab) list

show:  ## show what a scenario or a topology builds and claims: NAME=
	$(named)
	$(blklab) show -- "$$NAME"

report:  ## write one HTML page: [RUN=results/NAME/latest | results/matrix/latest | results/NAME] [RESULTS=]
	@what=$${RUN:-$$RESULTS}; scripts/run blklab report $${what:+-- "$$what"}

compare:  ## compare two kernels, runs or results folders: A=debian:6.1 B=debian:7.2 [RESULTS=]
	@[ -n "$$A" ] && [ -n "$$B" ] || { echo "make compare: which two? remedy: make compare A=debian:6.1 B=debian:7.2" >&2; exit 129; }
	$(blklab) compare $${RESULTS:+"--results=$$RESULTS"} -- "$$A" "$$B"

matrix:  ## run scenarios on several kernels: [KERNELS="debian:6.1 debian:6.12"] [SCENARIOS="..."] [SEEDS=] [SHARD=1/4] [RESULTS=]
	$(blklab) matrix $${KERNELS:+"--kernels=$$KERNELS"} $${SEEDS:+"--seeds=$$SEEDS"} $${SHARD:+"--shard=$$SHARD"} \
		$${RESULTS:+"--results=$$RESULTS"} -- $${SCENARIOS:+"$$SCENARIOS"}

bisect:  ## find the release or commit that makes a claim fail: NAME= GOOD=debian:6.12|REV BAD= [TREE=DIR] [SEEDS=] [RESULTS=]
	$(named)
	$(blklab) bisect $${TREE:+"--tree=$$TREE"} $${GOOD:+"--good=$$GOOD"} $${BAD:+"--bad=$$BAD"} $${SEEDS:+"--seeds=$$SEEDS"} \
		$${RESULTS:+"--results=$$RESULTS"} -- "$$NAME"

doctor:  ## check this host and name what is missing
	$(blklab) doctor

test: check  ## check, then run all tests but the slow ones
	@scripts/run --dev pytest $(parallel) $(coverage) -m 'not slow'

setup:  ## make the virtual environment and install what the host lacks
	@venv=$$(scripts/setup) && echo "blklab: ready in $$venv"

shell:  ##+ open a shell in a guest with a topology's controllers and the host's files: TOPOLOGY= [KERNEL=]
	@[ -n "$$TOPOLOGY" ] || { echo "make shell: which topology? remedy: make shell TOPOLOGY=3ware-8506" >&2; exit 129; }
	$(blklab) shell $${KERNEL:+"--kernel=$$KERNEL"} -- "$$TOPOLOGY"

timeline:  ##+ run a scenario on successive kernels: NAME= [KERNELS="debian:6.12 .. debian:7.3"] [SEEDS=] [RESULTS=]
	$(named)
	$(blklab) timeline $${KERNELS:+"--kernels=$$KERNELS"} $${SEEDS:+"--seeds=$$SEEDS"} $${RESULTS:+"--results=$$RESULTS"} -- "$$NAME"

judge:  ##+ judge a stored run again from its raw files: RUN=results/NAME/latest
	@[ -n "$$RUN" ] || { echo "make judge: which run? remedy: make judge RUN=results/shared-queue/latest" >&2; exit 129; }
	$(blklab) judge -- "$$RUN"

selftest:  ##+ run guests that fail on purpose: [KERNEL=]
	$(blklab) check selftest $${KERNEL:+"--kernel=$$KERNEL"}

calibrate:  ##+ measure the device models of a kernel against their closed forms: [KERNEL=] [RESULTS=]
	$(blklab) check calibration $${KERNEL:+"--kernel=$$KERNEL"} $${RESULTS:+"--results=$$RESULTS"}

controls:  ##+ build the mutant kernels and show which scenario detects each: [SOURCE=source:6.12] [SEEDS=] [RESULTS=]
	@scripts/host-packages --build
	@$(tool).evidence controls $${SOURCE:+"--source=$$SOURCE"} $${SEEDS:+"--seeds=$$SEEDS"} $${RESULTS:+"--results=$$RESULTS"}

zoo:  ##+ score the lab on published regressions and null pairs: [KERNELS="..."] [RESULTS=]
	@$(tool).evidence zoo $${KERNELS:+"--kernels=$$KERNELS"} $${RESULTS:+"--results=$$RESULTS"}

docs:  ##+ write the pages of docs/results from stored runs: [RESULTS=]
	@$(tool).evidence reports clocks noise --stored $${RESULTS:+"--results=$$RESULTS"}

check:  ##+ check types, style, spelling, import directions and shell files
	@scripts/run --dev scripts/check

# A guest beside another one is noise for the tests of the wall clock.
test-all: check  ##+ check, then run every test
	@scripts/run --dev pytest $(parallel) $(coverage) -m 'not vm'
	@scripts/run --dev pytest $(coverage) $(if $(COVERAGE),--cov-append) -m vm

bench:  ##+ compare warm runs with cold ones and another checkout: [BASE=DIR] [KERNEL=]
	@scripts/run --dev python -m tools.speed $${BASE:+"--base=$$BASE"} $${KERNEL:+"--kernel=$$KERNEL"}

lock:  ##+ pin the newest requirements with their hashes
	@scripts/lock

clean:  ##+ remove the virtual environments and caches of tools (not the results)
	@rm -rf .venv .venv-* .venv.lock .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +

.PHONY: help scenario list show report compare matrix bisect doctor test setup shell timeline judge selftest calibrate controls zoo docs check test-all bench lock clean
