"""What the probe found, in words, and the settings that follow from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_resiproxy.names import HTTPX_HANDLER

if TYPE_CHECKING:
    from scrapy_resiproxy.tunnel.probe_idle import Silence, Warmth


def tell_silence(silence: Silence, longest: float) -> list[str]:
    """What became of silent tunnels."""
    if silence.dropped_silently:
        return [
            f"A silent tunnel works after {silence.alive_after:.1f} s and no longer after {silence.dead_after:.1f} s.",
            "Nobody closes it: it is dropped silently, and a request on it would hang until its timeout.",
        ]
    if silence.closed_after is None:
        return [f"A silent tunnel is still open, and works, after {silence.alive_after:.1f} s of {longest:.0f}."]
    if not silence.origin_closes:
        return [f"A silent tunnel is closed after {silence.closed_after:.2f} s."]
    told = f" (it promises {silence.promised:.0f} s)" if silence.promised is not None else ""
    return [
        f"The origin closes a silent connection after {silence.closed_after:.2f} s{told}: the proxy waits longer.",
        "Probe with another --target to learn how long.",
    ]


def tell_warmth(warmth: Warmth, silence: Silence) -> str:
    """What became of the pinged tunnel."""
    if not warmth.died:
        return f"A tunnel pinged every {warmth.interval:.1f} s was alive after {warmth.lived:.1f} s: pings keep it."
    return (
        f"A tunnel pinged every {warmth.interval:.1f} s died after {warmth.lived:.1f} s all the same, against "
        f"{silence.timeout or 0.0:.1f} s without pings: it has a fixed lifetime, or pings are not welcome."
    )


def advice(way: str, silence: Silence, warmth: Warmth | None) -> list[str]:
    """The lines to paste into ``settings.py``."""
    lines = ["", "# settings.py"]
    if way == "SOCKS5":
        lines += [
            "# This port speaks SOCKS5; warm tunnels are for http proxies. Needs: pip install httpx[socks]",
            f'DOWNLOAD_HANDLERS = dict.fromkeys(("http", "https"), "{HTTPX_HANDLER}")',
        ]
        return lines
    if silence.timeout is None:
        return [*lines, "# No idle timeout was met: RESIPROXY_TUNNEL_IDLE_TIMEOUT may stay unset."]
    lines.append(f"RESIPROXY_TUNNEL_IDLE_TIMEOUT = {_floor(silence.timeout)}")
    if warmth is None or warmth.died:
        lines.append("RESIPROXY_TUNNEL_PING_PATH = None  # pings did not keep it")
    return lines


def _floor(seconds: float) -> float:
    """To the tenth below: a timeout that is believed too long breaks requests."""
    return int(seconds * 10) / 10
