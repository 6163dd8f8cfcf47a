"""Every format of logs that is read: a new one is a module beside these, and its line here."""

from colltool.measurements import osu, plain_csv
from colltool.measurements.log import Format
from colltool.measurements.nccl_tests import json_report
from colltool.measurements.nccl_tests import text as nccl_tests_text

FORMATS: tuple[Format, ...] = (
    json_report.FORMAT,
    osu.FORMAT,
    nccl_tests_text.FORMAT,
    plain_csv.FORMAT,
)
"""The first that recognises a log reads it, together with the others that share logs if it does, too."""
