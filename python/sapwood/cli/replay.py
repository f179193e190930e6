"""`sapwood replay`."""

from __future__ import annotations

import argparse

HELP = "Repeat the accesses of a trace on other storage or a model of it, as they were or planned anew."
EPILOG = (
    "Without a what-if option the requests are those of the trace, each sent when all had ended that had ended before "
    "it began then. With one, the baskets of the trace are planned anew: simulated, or else really read. The model: "
    "a request waits for the latency, then for its bytes, which share one line of the bandwidth."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("trace", metavar="TRACE", help="the trace (.parquet, .arrow) that sapwood trace wrote")
    where = parser.add_argument_group("where")
    where.add_argument(
        "--on", metavar="URL|PATH",
        help="the file on other storage; for several files their folder, with their names, or where some are equal "
        "with what differs of their paths",
    )  # fmt: skip
    where.add_argument("--latency", metavar="TIME", help="of simulated storage: 50ms, 0.14s")
    where.add_argument("--bandwidth", metavar="RATE", help="of simulated storage: 100MB/s, 1Gbit/s")
    where.add_argument("--in-flight", type=int, metavar="N", help="at most so many requests at a time")
    where.add_argument("--think", action="store_true", help="keep the pauses between requests")
    change = parser.add_argument_group("what if")
    change.add_argument("--prefetch-size", metavar="SIZE", help="another memory for what is fetched ahead: 32MiB")
    change.add_argument("--branches", action="append", metavar="PATTERN", help="other branches; may be repeated")
    change.add_argument("--layout", choices=("advised", "default"), help="written anew, as by sapwood rewrite")
    change.add_argument("--cluster-size", metavar="SIZE", help="with --layout: entries, or compressed bytes (30 MB)")
    change.add_argument("--merge-clusters", type=int, metavar="N", help="each N clusters lie as one (simulated only)")
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Repeat the accesses."""
    import json

    from sapwood.lab.replay import Changes, Model, parse_rate, parse_time, replay, text_of

    simulated = arguments.latency is not None or arguments.bandwidth is not None
    model = Model(
        latency=parse_time(arguments.latency or "0s"),
        bandwidth=parse_rate(arguments.bandwidth) if arguments.bandwidth else None,
        in_flight=arguments.in_flight,
        think=arguments.think,
    )
    changes = Changes(
        prefetch_size=arguments.prefetch_size,
        branches=arguments.branches,
        layout=arguments.layout,
        cluster_size=arguments.cluster_size,
        merge_clusters=arguments.merge_clusters,
    )
    done = replay(arguments.trace, on=arguments.on, model=model if simulated else None, limits=model, changes=changes)
    print(json.dumps(done, indent=1) if arguments.json else text_of(done), end="\n" * arguments.json)
    return 0
