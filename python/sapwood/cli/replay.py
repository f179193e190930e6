"""`sapwood replay`."""

from __future__ import annotations

import argparse

from sapwood.show.safe import say

HELP = "Repeat the accesses of a trace on other storage or in a model, as recorded or newly planned."
EPILOG = (
    "Without a what-if option, the recorded requests are sent again, each after those that had ended before it began. "
    "With one, requests for the recorded baskets are planned again, then simulated or read. In the model, a request "
    "waits for the latency, then for its bytes; all requests share one line of the given bandwidth. "
    "Example: sapwood replay trace.parquet"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("trace", metavar="TRACE", help="trace file (.parquet, .arrow) written by sapwood trace")
    where = parser.add_argument_group("storage")
    where.add_argument(
        "--on", metavar="URL|PATH",
        help="the file on other storage; for several files, a folder with files of the same names",
    )  # fmt: skip
    where.add_argument("--latency", metavar="TIME", help="latency of the model, e.g. 50ms")
    where.add_argument("--bandwidth", metavar="RATE", help="bandwidth of the model, e.g. 100MB/s or 1Gbit/s")
    where.add_argument("--in-flight", type=int, metavar="N", help="maximum number of concurrent requests")
    where.add_argument("--think", action="store_true", help="keep the pauses between requests")
    change = parser.add_argument_group("what if")
    change.add_argument("--prefetch-size", metavar="SIZE", help="prefetch memory, e.g. 32MiB")
    change.add_argument(
        "--branch", action="append", metavar="PATTERN", help="read these branches instead; may be repeated"
    )
    change.add_argument(
        "--layout", choices=("advised", "default"), help="plan for the file as sapwood rewrite would lay it out"
    )
    change.add_argument(
        "--cluster-size",
        metavar="SIZE",
        help="with --layout: entries, such as 10000, or compressed bytes, such as '30 MB'",
    )
    change.add_argument(
        "--merge-clusters", type=int, metavar="N", help="treat every N clusters as one (simulation only)"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Repeat the accesses."""
    import json

    from sapwood.lab.replay import Changes, Model, replay, text_of
    from sapwood.show.units import parse_rate, parse_time

    simulated = arguments.latency is not None or arguments.bandwidth is not None
    model = Model(
        latency=parse_time(arguments.latency or "0s"),
        bandwidth=parse_rate(arguments.bandwidth) if arguments.bandwidth else None,
        in_flight=arguments.in_flight,
        think=arguments.think,
    )
    changes = Changes(
        prefetch_size=arguments.prefetch_size,
        branches=arguments.branch,
        layout=arguments.layout,
        cluster_size=arguments.cluster_size,
        merge_clusters=arguments.merge_clusters,
    )
    done = replay(arguments.trace, on=arguments.on, model=model if simulated else None, limits=model, changes=changes)
    if arguments.json:
        print(json.dumps(done, indent=1))
    else:
        say(text_of(done), end="")
    return 0
