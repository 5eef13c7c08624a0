"""Signals, sent through ``crawler.signals``. Handlers take the named arguments they want."""

from __future__ import annotations

outcome_classified = object()
"""``(outcome, request, response, spider)``: an attempt was judged; *response* is None for an exception."""

retry_scheduled = object()
"""``(request, outcome, delay, spider)``: *request* will be sent again, *delay* seconds from now at the earliest."""

session_retired = object()
"""``(target, session, reason, spider)``: a session (hashed) was given up."""

circuit_opened = object()
"""``(target, until, spider)``: no request leaves for *target* before *until* (wall clock)."""

circuit_half_opened = object()
"""``(target, spider)``: *target* is being probed."""

circuit_closed = object()
"""``(target, spider)``: *target* takes requests again."""

budget_exhausted = object()
"""``(target, spider)``: a retry of *target* must wait for budget; sent once per spell."""

request_dead_lettered = object()
"""``(request, letter, spider)``: *letter* (a dict) was written to the dead-letter feed."""
