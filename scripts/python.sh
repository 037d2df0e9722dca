# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# Which Python interpreter the virtual environment is made from.

python_versions=(3.13 3.12 3.11)

# Print the interpreters of a supported version, best first.
suitable_pythons() {
    local candidate
    for candidate in "${python_versions[@]/#/python}" python3; do
        command -v "$candidate" >/dev/null || continue
        if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null; then
            printf '%s\n' "$candidate"
        fi
    done
}

# Print an interpreter that can make environments; fail if there is none.
usable_python() {
    local candidate
    while read -r candidate; do
        # Debian and Ubuntu keep ensurepip in a package of its own.
        if "$candidate" -c 'import ensurepip, venv' 2>/dev/null; then
            printf '%s\n' "$candidate"
            return
        fi
    done < <(suitable_pythons)
    return 1
}
