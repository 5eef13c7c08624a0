"""What a person reads: one line for a sick target, the table at the end, the cost. Pure text from counts."""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from scrapy_resiproxy.wording import counted, lasting, over

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from scrapy_resiproxy.tally import Counts, Tally
    from scrapy_resiproxy.tunnel.totals import Figures

    Command = Callable[..., str]
    """A function like :func:`in_project`."""

MEGABYTE = 1e6
GIGABYTE = 1e9
KILOBYTE = 1e3
WORTH_A_WORD = 0.05 * MEGABYTE
"""Bytes below which 0.0 MB would be said."""
GIVEN_UP = "given up"
"""The state of a target to which nothing more is sent."""
STATES = {"open": "circuit open", "half_open": "circuit half open"}
"""What a state of a circuit is called, where its own name would not be understood."""
AFTER_DELIVERY = ("parse_error", "item_error")
"""Reasons of dead letters whose page was good when it was judged: what failed was done with it later."""

REFUSED = "sessions are refused: slow down, try another RESIPROXY_COUNTRY or better exits"
ADVICE = {
    ("transient", "target"): "the site fails: nothing to do but wait, it is probed",
    ("transient", "session"): "exits die: shorter RESIPROXY_SESSION_TTL, or ask the vendor",
    ("transient", "proxy"): "the gateway fails: check its host and port, then the vendor's status page",
    ("transient", "local"): "our own network fails: check this machine's connection",
    ("rate", "target"): "the site limits us: its pace is kept; fewer requests at once would help",
    ("rate", "proxy"): "the plan's limit is reached: lower CONCURRENT_REQUESTS",
    ("identity", "session"): REFUSED,
    ("identity", "target"): REFUSED,
    ("terminal", "proxy"): "the proxy refuses us: check user name, password, plan and traffic left",
    ("terminal", "local"): "our own code fails: see the traceback, then replay offline",
    ("terminal", "target"): "pages are gone or forbidden: check the URLs",
}
"""What to do, by class and blame."""
ADVICE_BY_REASON = {
    "dns_not_found": "its name does not resolve: check the host in the URLs",
    "tls_error": "TLS fails: check the certificate, the TLS versions, and whether the proxy intercepts TLS",
}
"""What to do, where the reason says more than the blame."""
REFUSED_DIRECT = "the site refuses us: slow down, or go through a proxy (RESIPROXY_PROXY)"
"""What to do about class identity where no session can be changed."""


@dataclass(frozen=True, slots=True)
class Sickness:
    """What one line says of a target; times in seconds from now."""

    target: str
    state: str
    for_seconds: float | None
    span: float
    """How long the counts beside it took, up to now."""
    before: tuple[str, str, str] | None
    """The (class, reason, blame) that failed most in the last span with failures."""
    proxied: bool
    """Whether it is reached through our sessions."""
    waiting: int
    next_probe: float | None
    give_up: float | None
    held: float | None
    rate: float | None


def sick_line(sick: Sickness, counts: Counts) -> str:
    """One line: state; what the *counts* of one span say, and whose fault; what waits and comes next; what to do."""
    since = f" for {lasting(sick.for_seconds)}" if sick.for_seconds and sick.state != GIVEN_UP else ""
    state = f"{sick.target}: {STATES.get(sick.state, sick.state)}{since}"
    sections = [state, ", ".join(_of_span(sick, counts)), ", ".join(_at_present(sick)), _advice(sick, counts)]
    return "; ".join(filter(None, sections))


def _of_span(sick: Sickness, counts: Counts) -> list[str]:
    span = lasting(sick.span)
    if not counts.judged:
        before = [f"before that mostly {_why(sick.before, sick)}"] if sick.before is not None else []
        return [f"no answer in the last {span}", *before]
    parts = [f"in the last {span} {counts.failed} of {counted(counts.judged, 'answer')} failed"]
    if (top := counts.top_reason()) is not None:
        parts.append(f"mostly {_why(top, sick)}")
    if counts.fresh_refused and sick.proxied:
        parts.append(f"{counts.fresh_refused / counts.fresh:.0%} of fresh sessions refused")
    if counts.bytes_bad >= WORTH_A_WORD:
        parts.append(f"{counts.bytes_bad / MEGABYTE:.1f} MB wasted")
    return parts


def _why(top: tuple[str, str, str], sick: Sickness) -> str:
    class_, reason, blame = top
    if blame == "local":
        whose = "our own code" if class_ == "terminal" else "the network"
    else:
        whose = "our address" if blame == "session" and not sick.proxied else f"the {blame}"
    return f"{class_}/{reason} (fault of {whose})"


def _at_present(sick: Sickness) -> list[str]:
    parts = [f"{sick.waiting} waiting"] if sick.waiting else []
    if sick.rate is not None:
        parts.append(f"paced at {sick.rate:.2g}/s")
    for value, words in ((sick.held, "held"), (sick.next_probe, "next probe in"), (sick.give_up, "given up in")):
        if value is not None:
            parts.append(f"{words} {max(0.0, value):.0f} s")
    return parts


def _advice(sick: Sickness, counts: Counts) -> str | None:
    if sick.state == GIVEN_UP:
        return "nothing more is sent there in this run"
    top = counts.top_reason() or sick.before
    if top is None:
        return None
    class_, reason, blame = top
    if class_ == "identity" and not sick.proxied:
        return REFUSED_DIRECT
    return ADVICE_BY_REASON.get(reason) or ADVICE.get((class_, blame))


COLUMNS = ("target", "requests", "good", "retries", "retry ratio", "dead letters", "wasted MB", "mostly")


def table(tally: Tally, most: int) -> list[str]:
    """The *most* worst targets and a line for all, aligned."""
    rows: list[Sequence[str]] = [COLUMNS]
    rows += [_row(name, tally.targets[name]) for name in tally.worst(most)]
    if len(tally.targets) > 1:
        rows.append(_row(f"all ({len(tally.targets)})", tally.total))
    return aligned(rows)


def _row(name: str, counts: Counts) -> Sequence[str]:
    return (
        name,
        str(counts.requests),
        str(counts.valid),
        str(counts.retries),
        f"{counts.retry_ratio:.3f}",
        str(counts.letters),
        f"{counts.bytes_bad / MEGABYTE:.1f}",
        _mostly(counts),
    )


def _mostly(counts: Counts) -> str:
    """The class and reason of most failures, those of pages included that were delivered first."""
    failures: Counter[str] = Counter()
    for (class_, reason, _), count in (counts.reasons or {}).items():
        failures[f"{class_}/{reason}"] += count
    for reason in AFTER_DELIVERY:
        failures[f"terminal/{reason}"] += (counts.letter_reasons or {}).get(reason, 0)
    (worst, count), *_ = failures.most_common(1)
    return worst if count else "-"


def aligned(rows: Iterable[Sequence[str]]) -> list[str]:
    """Columns of equal width; the first and the last to the left, numbers to the right."""
    rows = list(rows)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    last = len(widths) - 1
    return [
        "  ".join(
            cell.ljust(width) if column in {0, last} else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def in_project(path: str, *, offline: bool = False, reasons: Sequence[str] = ()) -> str:
    """The command that runs the feed at *path* again in a project: only letters with these *reasons*, if any."""
    words = ["scrapy", "replay", *(["--offline"] if offline else [])]
    for reason in reasons:
        words += ["--reason", reason]
    return shlex.join([*words, path])


def replay_lines(
    path: str, letters: int, *, stored: int, final: Mapping[str, int], command: Command = in_project
) -> list[str]:
    """How to get back what is in the feed at *path*, a line for each *command*.

    *stored* of its *letters* hold their page; *final* counts, by reason, those that run only when asked for.
    """
    if not letters:
        return []
    unasked = sum(final.values())
    ended = counted(letters, "request ended as a dead letter", "requests ended as dead letters")
    reasons = sorted(reason for reason, count in final.items() if count)
    only_asked = f"when asked for: {command(path, reasons=reasons)}"
    if unasked == letters:
        return [
            f"{ended}, as the answer was final. {'It runs' if letters == 1 else 'They run'} again only {only_asked}"
        ]
    which = f"{letters - unasked} of these" if unasked else "it" if letters == 1 else "them"
    lines = [f"To send {which} again: {command(path)}"]
    if stored:
        kept = counted(stored, "of these has its page with it", "of these have their page with them")
        offline = f"{kept}: to run a fixed callback there and send nothing: {command(path, offline=True)}"
        # Where all have their page, nobody need pay for it once more.
        lines.insert(0 if stored == letters - unasked else 1, offline)
    lines[0] = f"{ended}. {lines[0]}"
    if unasked:
        lines.append(f"{unasked} of these had a final answer, to be run again only {only_asked}")
    return lines


def tunnel_line(figures: Figures) -> str:
    """How many tunnels were opened, what each carried, and how much of it was no page."""
    handshakes, pings = figures.share(figures.handshake_bytes), figures.share(figures.ping_bytes)
    return (
        f"Tunnels (a vendor's bill may call them sessions): {figures.opened} opened "
        f"{over(figures.opened, figures.seconds)}, {figures.bytes_each / KILOBYTE:,.1f} kB each; "
        f"overhead {figures.overhead_ratio:.1%} of their bytes ({handshakes:.1%} handshakes, {pings:.1%} pings)."
    )


def cost_line(counts: Counts, price_per_gb: float, figures: Figures | None = None) -> str:
    """What the bytes cost: per 1,000 good pages, and the share that bought nothing, by what it went for.

    Bodies, handshakes and pings only, so an estimate.
    """
    fake = (counts.bytes_by_class or {}).get("identity", 0)
    wasted = {"fake pages": fake, "other failed answers": counts.bytes_bad - fake}
    if figures is not None:
        wasted |= {"handshakes": figures.handshake_bytes, "pings": figures.ping_bytes}
    lost = sum(wasted.values())
    total = counts.bytes_ok + lost
    cost = total / GIGABYTE * price_per_gb
    per_page = f"{_amount(cost / counts.valid * 1000)} per 1,000 good pages" if counts.valid else "no good page"
    share = lost / total if total else 0.0
    parts = ", ".join(f"{name} {_amount(size / GIGABYTE * price_per_gb, 2)}" for name, size in wasted.items() if size)
    nothing = f"{share:.0%} of it bought nothing" + (f" ({parts})" if parts else "")
    return f"Estimated cost {_amount(cost)} ({total / MEGABYTE:.1f} MB): {per_page}; {nothing}."


def _amount(money: float, digits: int = 4) -> str:
    """To so many digits, never as a power of ten."""
    return f"{Decimal(f'{money:.{digits}g}'):f}"


def stats_of(counts: Counts) -> dict[str, Any]:
    """The stats of *counts*, by the tail of their key."""
    found: dict[str, Any] = {
        "request_count": counts.requests,
        "retry_count": counts.retries,
        "retry_ratio": round(counts.retry_ratio, 4),
        "retry_demand_ratio": round(counts.retry_demand_ratio, 4),
        "valid_count": counts.valid,
        "outcome_count/ok": counts.valid,
        "bytes/ok": counts.bytes_ok,
        "wasted_bytes": counts.bytes_bad,
        "budget/denied_count": counts.denied,
        "deadletter/written_count": counts.letters,
    }
    if counts.judged:
        found["valid_ratio"] = round(counts.valid_ratio, 4)
    for (class_, reason, _), count in (counts.reasons or {}).items():
        for key in (f"outcome_count/{class_}", f"outcome_reason_count/{class_}/{reason}"):
            found[key] = found.get(key, 0) + count
    for class_, size in (counts.bytes_by_class or {}).items():
        found[f"bytes/{class_}"] = size
    return found
