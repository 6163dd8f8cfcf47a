"""The words of a calibration: fits find codes with fields, and every sentence is in this table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class FitFinding(NamedTuple):
    """One thing to tell of a fit: a code of :data:`SENTENCES` and what fills its sentence."""

    code: str
    fields: Mapping[str, object] = {}

    @property
    def words(self) -> str:
        return SENTENCES[self.code].format_map(self.fields)


SENTENCES = {
    # how the algorithms of a collective were chosen
    "documented": "as {source}",
    "indistinguishable": "the times cannot distinguish it from {rival}: {errors}",
    "clear": "clearly better than {rival}: {errors}",
    "probable": "probably better than {rival}: {errors}",
    "tie": "cannot be told from {rival}: {errors}",
    "above_line": "{rival} would need {needed} from a port of {line}",
    "alone": "the only algorithm tried",
    "undocumented": "not as {source}, {rival}: another version, other settings, or CollNet",
    # what the error of a choice is, within the sentences above
    "unseen_errors": "{chosen} against {rival} on unseen sizes",
    "no_unseen_errors": "too few sizes",
    # why a fit does not use a size
    "outlier": "outlier at {first}: {ratio:.2g}x as slow as the rest predicts",
    "off_curve": (
        "no alpha-beta curve from {first} to {last}: up to {ratio:.2g}x as slow as the rest predicts"
    ),
    # what the names of fitted protocols say
    "undecided_protocol": (
        "{spoken}, {names}: sizes and rates do not show which of NCCL's protocols this is"
    ),
    "unknown_protocols": (
        "segments are parts of a fit, small sizes first; naming the library's protocols needs the"
        " library and its facts in the fabric, such as library: {{name: nccl, gpu: hopper, cpu:"
        " intel}}"
    ),
    "part_of_protocol": (
        "{spoken}, {name}: {whole} where messages are short, which takes less time"
    ),
    # what a single series leaves open; tied_FIELD: a field that is held near the fabric's value
    "chosen": "{spoken}: {algorithms} ({confidence})",
    "tied_alpha_s": (
        "{spoken}, {names}: these sizes cannot separate alpha from the launch overhead: alpha is"
        " kept near the fabric's, the launch overhead is the rest{cure}"
    ),
    "tied_launch_overhead_s": (
        "{spoken}, {names}: these sizes cannot separate alpha from the launch overhead, which is"
        " kept near the fabric's: alpha is the rest{cure}"
    ),
    "tied_bandwidth_Bps": ("{spoken}, {names}: no size is large enough to determine the bandwidth"),
    "second_rank_count": "; measure a second rank count to tell them apart",
    "worse_file": (
        "{title}: the fit alone is {fit} off, the written file {file}: the inner tiers are not what"
        " the fit assumes; name what ran, or calibrate each tier by itself"
    ),
    "many_left_out": (
        "{title}: {share} of the sizes are off any alpha-beta curve and left out of the fit"
    ),
    "few_sizes": "{title}: {count} sizes only; trust the fit between them, not beyond",
    # what all series together leave open
    "extrapolated": "measured from {first} to {last}: prices beyond are extrapolated",
    "not_measured": "not measured, priced with each tier's own numbers: {others}",
    "no_library": "the logs do not name their library: NCCL's algorithms are assumed",
    "above_line_rate": (
        "{name} carries {rate}, more than the stated line rate of {line}: its bandwidth is written"
        " instead of an eta"
    ),
    "other_tiers": "{count} series span other tiers and were left out",
}
