# SPDX-License-Identifier: GPL-2.0-only
"""A measured file that cannot be believed."""

from lab.base.errors import CannotJudge
from lab.base.printable import printable


class MeasurementError(CannotJudge):
    """``file`` (as the guest named it) does not hold what was to be measured."""

    def __init__(self, file: str, what: str, *, remedy: str = "") -> None:
        super().__init__(printable(f"{file}: {what}"), remedy=remedy)
        self.file = file
        self.what = what
