#!/usr/bin/python3
"""Prints the table of run-quick.sh from what `fsload --json` wrote (files named as arguments).

Columns: the median in µs per operation of every target, then three ratios, each the median of the
quotients within one round: memory to the faster of the two FUSE peers, memory to bare, store to memory.
"""
import json
import statistics
import sys

PEERS = ("bindfs", "passthrough")
COLUMNS = ("tmpfs", "bindfs", "passthrough", "bare", "memory", "store")
JUDGED = ("create", "coldstat", "read", "unlink")
PEER_BAR = 1.0
STORE_BAR = 1.3


def load(paths):
    """{(threads, layout): {op: {target: record}}}, in the order of the files."""
    tables = {}
    for path in paths:
        with open(path, encoding="utf-8") as lines:
            for record in map(json.loads, lines):
                table = tables.setdefault((record["threads"], record["layout"]), {})
                table.setdefault(record["op"], {})[record["target"]] = record
    return tables


def ratio(row, target, base):
    """Median of the quotients, or None where one of the two has no figures."""
    pair = [row.get(name, {}).get("us") for name in (target, base)]
    if not all(pair):
        return None
    return statistics.median(a / b for a, b in zip(*pair))


def best_peer(row):
    peers = [name for name in PEERS if row.get(name, {}).get("us")]
    return min(peers, key=lambda name: row[name]["median_us"]) if peers else None


def number(value, width=8):
    return f"{'-' if value is None else format(value, '.2f'):>{width}}"


def verdict(what, value, bar, strict):
    if value is None:
        return f"  {what} -  no figure"
    met = value < bar if strict else value <= bar
    sign = "<" if strict else "<="
    return f"  {what} {value:.2f}  (bar {sign} {bar:g})  {'met' if met else 'MISSED'}"


def print_table(threads, layout, table):
    where = "own directories" if layout == "own" else "one directory"
    some = next(iter(next(iter(table.values())).values()))
    print(f"\n{threads} thread{'s' * (threads > 1)}, {where}, {some['files']} files per thread, "
          f"{some['rounds']} rounds: µs per operation")
    print(f"{'':9}" + "".join(f"{name:>12}" for name in COLUMNS)
          + f"{'mem/peer':>10}{'mem/bare':>10}{'store/mem':>10}")
    for op, row in table.items():
        medians = "".join(number(row.get(name, {}).get("median_us"), 12) for name in COLUMNS)
        peer = best_peer(row)
        ratios = (ratio(row, "memory", peer), ratio(row, "memory", "bare"), ratio(row, "store", "memory"))
        print(f"{op:9}{medians}" + "".join(number(value, 10) for value in ratios))


def print_bars(threads, table):
    for op in JUDGED:
        row = table.get(op, {})
        what = f"{op:8} {threads} thread{'s' if threads > 1 else ' '}"
        for peer in PEERS:
            print(verdict(f"{what}: memory to {peer:11}", ratio(row, "memory", peer),
                          PEER_BAR, strict=True))
        print(verdict(f"{what}: store to memory      ", ratio(row, "store", "memory"),
                      STORE_BAR, strict=False))


def main():
    tables = load(sys.argv[1:])
    for (threads, layout), table in tables.items():
        print_table(threads, layout, table)
    cold = {(target, record["cold"]) for table in tables.values() for row in table.values()
            for target, record in row.items() if record["cold"] != "unused"}
    print("\nforgotten before coldstat, read and walk by: "
          + ", ".join(f"{target} {how}" for target, how in sorted(cold)))
    if not any("memory" in row for table in tables.values() for row in table.values()):
        return
    print("\nBar of this stage:")
    for (threads, layout), table in tables.items():
        if layout == "own":
            print_bars(threads, table)


if __name__ == "__main__":
    main()
