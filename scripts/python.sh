# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# Which Python interpreter the virtual environment is made from.

python_versions=(3.13 3.12 3.11)

# Fill the array `suitable` with the interpreters of a supported version, best first. An array, not output: a reader that
# stops at the first line would close the pipe.
find_suitable_pythons() {
    local candidate
    suitable=()
    for candidate in "${python_versions[@]/#/python}" python3; do
        command -v "$candidate" >/dev/null || continue
        if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null; then
            suitable+=("$candidate")
        fi
    done
}

# Print an interpreter that can make environments; fail if there is none.
usable_python() {
    local candidate
    find_suitable_pythons
    for candidate in "${suitable[@]}"; do
        # On Debian and Ubuntu ensurepip is a separate package.
        if "$candidate" -c 'import ensurepip, venv' 2>/dev/null; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    return 1
}
