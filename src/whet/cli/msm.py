"""`whet msm`: one multi-scalar multiplication, computed, checked and timed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from whet.cli import options
from whet.errors import BadInput

FILE = click.Path(path_type=Path)
ONLY_WITH_FILES = (
    "points_format",
    "scalars_format",
    "section",
    "offset",
    "scalars_offset",
    "count",
    "check_points",
    "check_seconds",
)


@click.command("msm", short_help="compute one MSM, check it, print the point and the time")
@click.option("--n", "size", metavar="SIZE", help="That many made-up points, such as 2^16.")
@click.option("--profile", default="random", show_default=True, help="Kind of made-up points and scalars.")
@click.option("--seed", type=int, help="Of the made-up input or of the checked sample; otherwise drawn and printed.")
@click.option("--points", "points_path", type=FILE, metavar="FILE", help="Points from a file, such as an SRS.")
@click.option("--scalars", "scalars_path", type=FILE, metavar="FILE", help="Scalars from a file.")
@click.option("--points-format", default="auto", show_default=True, help="See --list-formats.")
@click.option("--scalars-format", default="auto", show_default=True, help="See --list-formats.")
@click.option("--section", help="Which points of a file that holds several kinds, by name or number.")
@click.option("--offset", default="0", metavar="SIZE", help="Skip that many points of the file.")
@click.option("--scalars-offset", default="0", metavar="SIZE", help="Skip that many scalars of the file.")
@click.option("--count", metavar="SIZE", help="Use that many of both; otherwise all scalars.")
@click.option(
    "--check-points",
    type=click.Choice(("none", "on-curve", "checksum")),
    default="on-curve",
    show_default=True,
    help="What to check in the file of points.",
)
@click.option("--variant", default="auto", show_default=True, help="Such as plain or pippenger:glv=true.")
@click.option("--threads", type=click.IntRange(min=1), help="Otherwise the variant's own choice.")
@click.option("--memory-budget", metavar="BYTES", help="At most that much memory for the sum, such as 64MB.")
@click.option("--precompute", type=click.IntRange(min=1), help="Keep up to so many multiples of each point (CPU).")
@click.option("--device", default="auto", show_default=True, help="Where to compute: cpu, webgpu or webgpu:ADAPTER.")
@click.option("--fallback", is_flag=True, help="Let the CPU answer when the GPU fails, and say why.")
@click.option(
    "--check-seconds",
    type=click.FloatRange(min=0),
    default=20.0,
    show_default=True,
    help="Budget for checking the sum of files; 0 leaves it unchecked.",
)
@click.option("--out", "out_path", type=FILE, metavar="FILE", help="Write the point as 64 bytes.")
@click.option("--out-endian", type=click.Choice(("little", "big")), default="little", show_default=True)
@click.option("--list-formats", is_flag=True, help="Print the file formats and leave.")
@options.as_json
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    size: str | None,
    points_path: Path | None,
    scalars_path: Path | None,
    list_formats: bool,
    variant: str,
    precompute: int | None,
    as_json: bool,
    **rest: Any,
) -> None:
    """Compute sum s_i P_i on BN254 G1, check it, and print the point and the time.

    \b
    whet msm --n 2^16
    whet msm --points pot.ptau --scalars witness.wtns
    whet msm --points bn254_g1.dat --points-format bb --scalars s.txt --scalars-format text --count 2^10

    Made-up points have known logarithms, so their sum is checked by one multiplication with Python integers. A sum over
    files is computed again by another variant; where --check-seconds does not suffice for that, a random sample is.
    Not constant-time.
    """
    from whet.cli import msm_report
    from whet.cli.console import progress
    from whet.msm.checked_sums import Choices
    from whet.msm.options import with_precompute
    from whet.msm.sum_inputs import run_files, run_made_up

    if list_formats:
        msm_report.print_formats(as_json)
        return
    if (size is None) == (points_path is None and scalars_path is None):
        raise BadInput("nothing to compute, or too much", cure="give either --n, or --points and --scalars")
    if size is None and (points_path is None or scalars_path is None):
        raise BadInput("points without scalars, or scalars without points", cure="give both --points and --scalars")
    misplaced = ("profile",) if size is None else ONLY_WITH_FILES
    given = [name for name in misplaced if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    if given:
        other = "--points" if size is None else "--n"
        raise BadInput(f"--{given[0].replace('_', '-')} does not go with {other}", cure="leave it out")
    choices = Choices(**rest, variant=with_precompute(variant, precompute), stage=progress)
    if points_path is not None and scalars_path is not None:
        done = run_files(points_path, scalars_path, choices)
    else:
        done = run_made_up(str(size), choices)
    msm_report.print_result(done, as_json)
